/** HU1 to HU9: routes that charge what a request cost, by the scheme `upto`, with a small Facilitator. */
import { expect } from "chai";
import { type ClaimStore, type GateOptions, memoryClaims, type Payment, type Provider } from "turnpike/gate";
import { EXACT_PERMIT2_PROXY, PERMIT2, UPTO_PERMIT2_PROXY } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import {
  type Answer,
  addressOf,
  NOW,
  ONE_TIME,
  OVER_PERMIT2,
  RESERVING,
  type SettleBody,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  TOKEN,
  testProvider,
} from "../../../support/gate";
import { ADAPTERS, type AdapterServer, type Handled, PREFIX } from "../support/frameworks";
import { type Permit2Changes, permit2Headers } from "../support/permit2";
import { type Accepted, requiredIn, v1Headers, v2Headers } from "../support/standard";

const PRICED = { address: TOKEN, name: "Test USD", version: "1", decimals: 6, currency: "USD" as const };

const UPTO = [{ type: "upto", max: "$0.50" }] as const;

const MAX = 500_000n;

const route = (options: object) => options as GateOptions<never>;

describe("prices of type upto", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let server: AdapterServer;
  let runs: number;
  let handle: (payment: Payment) => Handled | Promise<Handled>;
  /** what each settlement asked for */
  let charged: string[];

  const ROUTES: Readonly<Record<string, GateOptions<never>>> = {
    "/upto": route({ pricing: UPTO }),
    "/units": route({ pricing: [{ type: "upto", max: 250_000n }] }),
    "/unkept": route({ pricing: UPTO, replay: false }),
    "/exact": route({ pricing: [{ type: "one-time", amount: MAX }] }),
    "/mixed": route({ pricing: [...UPTO, { type: "one-time", price: "$0.60" }] }),
  };

  async function open(adapter = "node:http"): Promise<void> {
    const started = ADAPTERS[adapter] as (typeof ADAPTERS)[string];
    const handled = ({ payment }: { readonly payment: Payment }) => {
      runs++;
      return handle(payment);
    };
    server = await started(
      provider,
      Object.entries(ROUTES).map(([path, gate]) => ({ path, gate, handle: handled })),
    );
  }

  /** Opens again with a Facilitator that settles no smaller amounts than this. @param minAmount base units */
  async function openWithLeast(minAmount: string): Promise<void> {
    const { currency: _, ...token } = PRICED;
    facilitator.supported = { ...OVER_PERMIT2, tokens: [{ ...token, minAmount }] };
    await server.stop();
    await provider.close();
    provider = testProvider(facilitator, { token: PRICED });
    await open();
  }

  const log = console.error;
  beforeEach(async () => {
    console.error = () => undefined;
    facilitator = await startSmallFacilitator();
    facilitator.supported = OVER_PERMIT2;
    provider = testProvider(facilitator, { token: PRICED, replay: {} });
    runs = 0;
    charged = [];
    handle = (payment) => {
      payment.charge("$0.12");
      return { headers: { "X-Own": "secret" }, body: "the content" };
    };
    const { settle } = facilitator;
    facilitator.settle = (asked) => {
      charged.push(String(asked.paymentRequirements.amount));
      return settle(asked);
    };
    await open();
  });
  afterEach(async () => {
    console.error = log;
    await server.stop();
    await provider.close();
    await facilitator.stop();
  });

  const at = (path: string) => `${server.url}${PREFIX}${path}`;

  async function entryOf(path: string, scheme = "upto"): Promise<Accepted> {
    const { accepts } = requiredIn(await send(at(path)));
    return accepts.find((entry) => entry.scheme === scheme) as Accepted;
  }

  const paid = async (path: string, changes: Permit2Changes = {}) => permit2Headers(await entryOf(path), changes);

  const receiptIn = ({ headers }: Answer) =>
    JSON.parse(Buffer.from(String(headers["payment-response"] ?? "bnVsbA=="), "base64").toString());

  const asked = () => facilitator.calls.map(({ path }) => path.replace(/0x[0-9a-f]{64}/, ":id"));

  it("offers what stock clients need, beside exact entries, whose version 1 body they stay out of", async () => {
    const answer = await send(at("/mixed"));
    const [upto, exact] = requiredIn(answer).accepts;
    expect(upto).to.deep.include({ scheme: "upto", amount: "500000", asset: TOKEN, network: "eip155:31337" });
    const { memo, ...extra } = (upto as Accepted).extra;
    expect(memo).to.be.a("string");
    const signed = { name: "Test USD", version: "1", assetTransferMethod: "permit2" };
    expect(extra).to.deep.equal({ ...signed, facilitatorAddress: addressOf("settler") });
    expect(exact).to.deep.include({ scheme: "exact", amount: "600000" });
    expect(exact?.extra).not.to.have.any.keys("assetTransferMethod", "facilitatorAddress", "paymentFlow");
    expect(answer.json.accepts.map(({ scheme, amount }: Accepted) => [scheme, amount])).to.deep.equal([
      ["exact", "600000"],
    ]);
    expect((await send(at("/upto"))).json.accepts[0]).to.include({ scheme: "upto", maxAmountRequired: "500000" });
    // Of the template, which the first quote leaves: its own memo, and the same terms.
    const again = requiredIn(await send(at("/mixed"))).accepts[0] as Accepted;
    expect({ ...again, extra: { ...again.extra, memo } }).to.deep.equal(upto);
    expect(again.extra.memo).not.to.equal(memo);
  });
  for (const adapter of Object.keys(ADAPTERS)) {
    it(`HU1 reserves the maximum and settles the charge once, through ${adapter}`, async () => {
      await server.stop();
      await open(adapter);
      const amounts: unknown[] = [];
      handle = (payment) => {
        amounts.push(payment.kind === "one-time" && [payment.amount, payment.max]);
        payment.charge(300_000);
        payment.charge("$0.12");
        amounts.push(payment.kind === "one-time" && [payment.amount, payment.max]);
        return { body: "the content" };
      };
      const headers = await paid("/upto");
      const answer = await send(at("/upto"), { headers });
      expect([answer.status, answer.text]).to.deep.equal([200, "the content"]);
      expect(amounts).to.deep.equal([
        [MAX, MAX],
        [120_000n, MAX],
      ]);
      const reserved = facilitator.calls.find(({ path }) => path === "/verify")?.body as SettleBody;
      expect(reserved.paymentRequirements.amount).to.equal("500000");
      expect(charged).to.deep.equal(["120000"]);
      expect(receiptIn(answer)).to.include({ success: true, amount: "120000", transaction: `0x${"ab".repeat(32)}` });
      expect((await send(at("/upto"), { headers })).json.reason).to.equal("already_used");
      expect([runs, charged.length]).to.deep.equal([1, 1]);
    });
  }

  it("charges the maximum where the handler names nothing, and ignores charge() on other payments", async () => {
    handle = () => ({ body: "the content" });
    expect(receiptIn(await send(at("/units"), { headers: await paid("/units") }))).to.include({ amount: "250000" });
    expect(charged).to.deep.equal(["250000"]);
    handle = (payment) => {
      payment.charge("$0.12");
      return { body: "the content" };
    };
    expect((await send(at("/exact"), { headers: await v2Headers(at("/exact")) })).status).to.equal(200);
    expect(charged.slice(1)).to.deep.equal(["500000"]);
  });

  it("HU2 answers 500 and charges nothing above the maximum, also where the handler hides it", async () => {
    const above = (payment: Payment) => payment.charge(MAX + 1n);
    const faults: ((payment: Payment) => void)[] = [
      above,
      (payment) => {
        expect(() => above(payment)).to.throw("500001 base units, but the payer permitted 500000 at most");
        payment.charge("$0.10");
      },
      (payment) => {
        expect(() => payment.charge("12"))
          .to.throw("12n for base units, or")
          .and.have.property("code", "ConfigError");
      },
    ];
    for (const fault of faults) {
      handle = (payment) => {
        fault(payment);
        return { headers: { "X-Own": "secret" }, body: "the content" };
      };
      const answer = await send(at("/upto"), { headers: await paid("/upto") });
      expect(answer.status, answer.text).to.equal(500);
      expect(answer.text).not.to.include("the content");
      expect(answer.headers).not.to.have.property("x-own");
      expect(facilitator.reserved.size, "nothing is held").to.equal(0);
    }
    expect(charged).to.deep.equal([]);
    handle = (payment) => {
      try {
        above(payment);
      } catch {}
      return { body: "the content" };
    };
    const hidden = await send(at("/upto"), { headers: await paid("/upto") });
    expect(hidden.json.message).to.include("500001 base units").and.include("500000 at most");
  });

  it("HU2 nothing is charged by a value that is no amount, or a meter that cannot be made, however the handler hides it", async () => {
    const shapeless = Object.create(null) as object;
    const wrong: readonly unknown[] = [
      ...[
        -1n,
        -1,
        "-1",
        "$-1",
        1.5,
        Number.NaN,
        Number.POSITIVE_INFINITY,
        2 ** 53,
        null,
        undefined,
        {},
        [],
        "",
        "free",
      ],
      ...["$0.0000001", "0.12 EUR", "1e3", "0x10", true, Symbol("1"), shapeless, Promise.resolve(1n), () => 1n],
    ];
    const acts: ((payment: Payment) => unknown)[] = [
      ...wrong.map((value) => (payment: Payment) => payment.charge(value as bigint)),
      (payment) => payment.meter(undefined as never),
      (payment) => payment.meter({ unit: "token", unitPrice: -1n }),
      (payment) => payment.meter({ unit: "token", unitPrice: "cheap" }),
    ];
    for (const [place, act] of acts.entries()) {
      handle = (payment) => {
        expect(() => act(payment), `${place}`).to.throw();
        return { body: "the content" };
      };
      const answer = await send(at("/upto"), { headers: await paid("/upto") });
      expect([answer.status, answer.text.includes("the content")], `${place}`).to.deep.equal([500, false]);
    }
    expect([charged, facilitator.reserved.size]).to.deep.equal([[], 0]);
  });

  it("HU2 a charge or a price below what the Facilitator settles is an error that says so", async () => {
    await openWithLeast("100");
    for (const [amount, status] of [
      [99n, 500],
      [1n, 500],
      [100n, 200],
      [0n, 200],
    ] as const) {
      handle = (payment) => {
        payment.charge(amount);
        return { body: "the content" };
      };
      const answer = await send(at("/upto"), { headers: await paid("/upto") });
      expect(answer.status, `${amount}`).to.equal(status);
    }
    expect(charged).to.deep.equal(["100", "0"]);
    const fault = (amount: bigint) =>
      provider
        .gate(route({ pricing: [{ type: "one-time", amount }] }))
        .ready()
        .then(
          () => "ready",
          (error: Error) => error.message,
        );
    expect(await fault(99n)).to.match(/price of 99 base units can never be paid: .* settles 100 of 0x/);
    expect(await fault(100n)).to.equal("ready");
  });

  it("HU2 what an answer's meters count together is charged, and nothing where the Facilitator settles no such sum", async () => {
    await openWithLeast("100");
    const amounts: (bigint | undefined)[] = [];
    for (const units of [[], [1], [60, 39], [60, 60], [99, 1]]) {
      handle = async (payment) => {
        for (const one of units) await payment.meter({ unit: "token", unitPrice: 1n }).add(one);
        if (units.length === 0) await payment.meter({ unit: "token", unitPrice: 1n }).end();
        amounts.push(payment.kind === "one-time" ? payment.amount : undefined);
        return { body: "the content" };
      };
      const answer = await send(at("/upto"), { headers: await paid("/upto") });
      expect(answer.status, answer.text).to.equal(200);
    }
    expect(amounts).to.deep.equal([0n, 0n, 0n, 120n, 100n]);
    expect(charged).to.deep.equal(["0", "0", "0", "120", "100"]);
  });

  it("HU3 a charge of nothing settles nothing, and the payment is not served again", async () => {
    handle = (payment) => {
      payment.charge(0);
      return { body: "the content" };
    };
    for (const path of ["/upto", "/unkept"]) {
      const headers = await paid(path);
      const answer = await send(at(path), { headers });
      expect([answer.status, answer.text]).to.deep.equal([200, "the content"]);
      expect(receiptIn(answer)).to.include({ success: true, transaction: "", amount: "0" });
      expect((await send(at(path), { headers })).json.reason).to.equal("already_used");
    }
    expect([runs, charged]).to.deep.equal([2, ["0", "0"]]);
  });

  it("HU4 refuses another payee, token, maximum, window, spender, facilitator or signer, and asks nobody", async () => {
    const other = addressOf("somebody else");
    const cases: readonly (readonly [Permit2Changes, string])[] = [
      [{ to: other }, "terms"],
      [{ to: other, accepted: { payTo: other } }, "memo"],
      [{ token: other }, "terms"],
      [{ token: other, accepted: { asset: other } }, "memo"],
      [{ amount: MAX - 1n }, "terms"],
      [{ amount: MAX - 1n, accepted: { amount: "499999" } }, "memo"],
      [{ deadline: BigInt(NOW + 3) }, "window"],
      [{ deadline: BigInt(NOW + 3_600) }, "window"],
      [{ validAfter: BigInt(NOW + 200) }, "window"],
      [{ spender: PERMIT2 }, "spender"],
      [{ facilitator: other }, "settler"],
      [{ resource: { url: "https://api.example/else" } }, "resource"],
    ];
    for (const [changes, reason] of cases) {
      const answer = await send(at("/upto"), { headers: await paid("/upto", changes) });
      expect([answer.status, answer.json.reason], JSON.stringify(answer.json)).to.deep.equal([402, reason]);
    }
    // A former key of the Facilitator can still send what names it.
    const former = await paid("/upto", { facilitator: addressOf("former settler") });
    expect((await send(at("/upto"), { headers: former })).status).to.equal(200);
    expect(asked()).to.deep.equal(["/verify", "/settle"]);
    expect(runs).to.equal(1);
  });

  it("HU5 takes no payload of one scheme for another, whatever option it repeats", async () => {
    const [upto, exact] = [await entryOf("/upto"), await entryOf("/exact", "exact")];
    const extra = { ...exact.extra, assetTransferMethod: "permit2", facilitatorAddress: addressOf("settler") };
    const memo = upto.extra.memo;
    const refused: Record<string, readonly [string, Record<string, string>]> = {
      "an exact option as upto": ["/exact", permit2Headers({ ...exact, scheme: "upto", extra } as never)],
      "an exact option over Permit2": ["/exact", permit2Headers({ ...exact, extra } as never)],
      "an upto option as exact": ["/upto", permit2Headers({ ...upto, scheme: "exact" } as never)],
      "an upto signature for the exact proxy": ["/upto", permit2Headers(upto, { spender: EXACT_PERMIT2_PROXY })],
      "an exact witness of the upto proxy": [
        "/upto",
        permit2Headers({ ...upto, scheme: "exact" } as never, { spender: UPTO_PERMIT2_PROXY }),
      ],
      "an upto memo under EIP-3009": ["/upto", await eip3009(memo)],
    };
    for (const [what, [path, headers]] of Object.entries(refused)) {
      const answer = await send(at(path), { headers });
      expect([what, answer.status]).to.deep.equal([what, 402]);
      expect(answer.json.error, what).to.equal("InvalidPaymentProof");
    }
    const overToken = await send(at("/upto"), { headers: await v2Headers(at("/upto")) });
    expect(overToken.json.reason, "an EIP-3009 transfer for upto").to.equal("transfer_method");
    const v1 = await v1Headers({ ...(await send(at("/upto"))).json.accepts[0], scheme: "exact" });
    expect((await send(at("/upto"), { headers: v1 })).json.reason).to.equal("terms");
    expect([runs, asked()]).to.deep.equal([0, []]);

    // One nonce of Permit2 is one payment, by whichever scheme it comes first.
    const headers = await paid("/upto", { nonce: 7n });
    expect((await send(at("/upto"), { headers })).status).to.equal(200);
    expect((await send(at("/upto"), { headers: await paid("/upto", { nonce: 7n }) })).json.reason).to.equal(
      "already_used",
    );
  });

  async function eip3009(memo: unknown): Promise<Record<string, string>> {
    const headers = await v2Headers(at("/exact"));
    const body = JSON.parse(Buffer.from(headers["PAYMENT-SIGNATURE"], "base64").toString());
    const extra = { ...body.accepted.extra, memo };
    const altered = { ...body, resource: undefined, accepted: { ...body.accepted, extra } };
    return { "PAYMENT-SIGNATURE": Buffer.from(JSON.stringify(altered)).toString("base64") };
  }

  for (const path of ["/upto", "/unkept"]) {
    it(`HU6 settles the recorded charge again after an unknown outcome, never another one, on ${path}`, async () => {
      const prices = ["$0.12", "$0.40", "$0.50"];
      handle = (payment) => {
        payment.charge(prices[runs - 1] ?? "$0.50");
        return { body: `run ${runs}` };
      };
      const pending = { success: false, errorReason: "settlement_pending", transaction: "", network: "local-31337" };
      const { settle } = facilitator;
      const amounts: (string | undefined)[] = [];
      let isPending = true;
      facilitator.settle = (body) => {
        amounts.push(body.paymentRequirements.amount);
        return isPending ? pending : settle(body);
      };
      const headers = { ...(await paid(path)), "Idempotency-Key": "one-purchase-of-this-test" };
      for (let i = 0; i < 2; i++) expect((await send(at(path), { headers })).status).to.equal(503);
      isPending = false;
      const answer = await send(at(path), { headers });
      expect([answer.status, receiptIn(answer).amount], answer.text).to.deep.equal([200, "120000"]);
      expect(answer.text).to.equal(path === "/upto" ? "run 1" : `run ${runs}`);
      expect(amounts).to.deep.equal(["120000", "120000", "120000"]);
    });
  }

  it("HU6 HU9 a retry that fails costs nothing where nothing has settled, and a later one costs what was recorded", async () => {
    const pending = { success: false, errorReason: "settlement_pending", transaction: "", network: "local-31337" };
    facilitator.settlements.push(pending);
    const headers = await paid("/unkept");
    expect((await send(at("/unkept"), { headers })).status).to.equal(503);
    handle = () => ({ status: 500, body: "broken" });
    expect((await send(at("/unkept"), { headers })).text).to.equal("broken");
    expect(charged, "only the first run has asked").to.deep.equal([]);
    handle = (payment) => {
      payment.charge("$0.40");
      return { body: "the content" };
    };
    expect(receiptIn(await send(at("/unkept"), { headers }))).to.include({ amount: "120000" });
    expect([runs, charged]).to.deep.equal([3, ["120000"]]);
  });

  it("HU6 settles nothing when the recorded charge is lost, or cannot be recorded", async () => {
    const store = memoryClaims({ warn: false });
    let isLost = false;
    const claims: ClaimStore = {
      ...store,
      note: async (...args) => (isLost ? {} : store.note(...args)),
      facts: async (id) => (isLost ? new Map() : store.facts(id)),
    };
    await server.stop();
    await provider.close();
    provider = testProvider(facilitator, { token: PRICED, replay: {}, claims });
    await open();
    const headers = await paid("/upto");
    isLost = true;
    expect((await send(at("/upto"), { headers })).status).to.equal(503);
    expect(charged, "an amount that cannot be read back").to.deep.equal([]);
    facilitator.status = "pending";
    expect((await send(at("/upto"), { headers })).json.error).to.equal("PaymentAlreadyUsed");
    expect([runs, charged]).to.deep.equal([1, []]);
  });

  it("HU7 a stream is charged before its first byte, or not at all", async () => {
    async function* parts(payment: Payment, isLate: boolean) {
      yield "data: 1\n\n";
      if (isLate) expect(() => payment.charge("$0.40")).to.throw("after the answer had begun");
      yield "data: 2\n\n";
    }
    const headers = { "Content-Type": "text/event-stream" };
    handle = (payment) => {
      payment.charge("$0.12");
      return { headers, body: parts(payment, true) };
    };
    const streamed = await send(at("/upto"), { headers: await paid("/upto") });
    expect([streamed.status, streamed.text]).to.deep.equal([200, "data: 1\n\ndata: 2\n\n"]);
    expect(receiptIn(streamed)).to.include({ amount: "120000" });
    handle = (payment) => ({ headers, body: parts(payment, false) });
    const refused = await send(at("/upto"), { headers: await paid("/upto") });
    expect([refused.status, refused.json.message]).to.deep.equal([
      500,
      "The answer is a stream, or too long to be withheld, and charge() was not called before its first byte: nothing is charged.",
    ]);
    expect(charged).to.deep.equal(["120000"]);
    expect(facilitator.reserved.size).to.equal(1);
  });

  it("HU8 gives nothing of an answer that the Facilitator does not settle, or settles at another amount", async () => {
    const { settle } = facilitator;
    const network = "local-31337";
    const lies: ((body: SettleBody) => object | Promise<object>)[] = [
      () => ({ success: false, errorReason: "permit2_deadline_expired", transaction: "", network }),
      (body) => settle({ ...body, paymentRequirements: { ...body.paymentRequirements, amount: "500000" } }),
      (body) => settle({ ...body, paymentRequirements: { ...body.paymentRequirements, amount: "0" } }),
    ];
    for (const [i, lie] of lies.entries()) {
      facilitator.settle = lie;
      const answer = await send(at("/upto"), { headers: await paid("/upto") });
      expect(answer.status, answer.text).to.equal(i === 0 ? 402 : 503);
      expect(answer.text).not.to.include("the content");
      expect(answer.headers).not.to.have.property("x-own");
    }
  });

  it("HU9 costs nothing when the handler fails, and one purchase has a payment", async () => {
    handle = (payment) => {
      payment.charge("$0.12");
      return { status: 404, body: "not found" };
    };
    const headers = await paid("/upto");
    expect((await send(at("/upto"), { headers })).status).to.equal(404);
    expect([charged, facilitator.reserved.size]).to.deep.equal([[], 0]);
    await takeElsewhere(headers);
    expect((await send(at("/upto"), { headers })).json.reason).to.equal("payment_already_granted");
    expect(runs).to.equal(1);
  });

  /** Another gate reserves the payment. */
  async function takeElsewhere(headers: Record<string, string>): Promise<void> {
    const body = JSON.parse(Buffer.from(headers["PAYMENT-SIGNATURE"] ?? "", "base64").toString());
    const grant = { id: `0x${"11".repeat(32)}`, resource: "https://other.example/" };
    await facilitator.verify({ paymentPayload: body, paymentRequirements: body.accepted, grant });
  }

  it("is sold in an application's own tests", async () => {
    const tested = createTestProvider();
    const app = await ADAPTERS["node:http"]?.(tested.provider, [
      { path: "/upto", gate: ROUTES["/upto"] as GateOptions<never>, handle: ({ payment }) => handle(payment) },
    ]);
    try {
      const url = `${app?.url}${PREFIX}/upto`;
      const headers = tested.payUpto(String((await send(url)).headers["payment-required"]));
      const answer = await send(url, { headers });
      expect([answer.status, receiptIn(answer).amount]).to.deep.equal([200, "120000"]);
      expect((await send(url, { headers })).json.reason).to.equal("already_used");
    } finally {
      await app?.stop();
      await tested.provider.close();
    }
  });

  it("refuses settings by which nothing could be charged as written", async () => {
    const gate =
      (options: object, more = {}) =>
      () =>
        testProvider(facilitator, { token: PRICED, ...more }).gate(route(options));
    expect(gate({ pricing: UPTO, settle: "before" })).to.throw('settle is "before", but a price of type "upto"');
    expect(gate({ pricing: [{ type: "upto" }] })).to.throw("pricing[0] needs `max`");
    expect(gate({ pricing: [{ type: "upto", max: "500000" }] })).to.throw('pricing[0].max is "500000", which could');
    expect(gate({ pricing: [{ type: "upto", max: 0n }] })).to.throw("pricing[0].max is 0");
    expect(gate({ pricing: [{ type: "one-time", max: 5n }] })).to.throw('pricing[0].max is of entries of type "upto"');
    const foreign = { url: facilitator.url, signers: [facilitator.signer], trustUnsigned: true };
    expect(gate({ pricing: UPTO }, { facilitator: foreign })).to.throw("needs a Facilitator that reserves payments");
    const reason = (made: () => ReturnType<Provider["gate"]>) =>
      made()
        .ready()
        .catch((error: Error) => error.message);
    facilitator.supported = RESERVING;
    expect(await reason(gate({ pricing: UPTO }))).to.include('does not settle payments of type "upto"');
  });
});

describe("one-time prices in a token without EIP-3009", () => {
  it("HU5 are paid over Permit2, with a permit where the token has them, and by no EIP-3009 transfer", async () => {
    const facilitator = await startSmallFacilitator();
    facilitator.supported = OVER_PERMIT2;
    const token = { ...PRICED, transferMethod: "permit2" as const, permits: true };
    const provider = testProvider(facilitator, { token, replay: {} });
    const server = await (ADAPTERS["node:http"] as (typeof ADAPTERS)[string])(provider, [
      { path: "/paid", gate: route({ pricing: ONE_TIME }), handle: () => ({ body: "the content" }) },
    ]);
    const url = `${server.url}${PREFIX}/paid`;
    try {
      const required = requiredIn(await send(url));
      const [entry] = required.accepts;
      expect(entry?.extra).to.include({ assetTransferMethod: "permit2", name: "Test USD" });
      expect(required.extensions).to.have.property("eip2612GasSponsoring");
      expect((await send(url, { headers: await v2Headers(url) })).json.reason).to.equal("transfer_method");
      const v1 = await v1Headers((await send(url)).json.accepts[0]);
      expect((await send(url, { headers: v1 })).json.reason).to.equal("terms");
      const headers = permit2Headers(entry as Accepted);
      const answer = await send(url, { headers });
      expect([answer.status, answer.text]).to.deep.equal([200, "the content"]);
      expect((await send(url, { headers })).json.reason).to.equal("already_used");
      expect(facilitator.calls.map(({ path }) => path)).to.deep.equal(["/verify", "/settle"]);
    } finally {
      await server.stop();
      await provider.close();
      await facilitator.stop();
    }
  });
});
