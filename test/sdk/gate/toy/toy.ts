/** HA1 HA20 HA23: a dialect and a scheme that are not built in, written against the interfaces of both. */
import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import { checksum, type Hex } from "turnpike/protocol";
import {
  type Answer,
  addressOf,
  CHAIN_ID,
  NOW,
  ONE_TIME,
  PAY_TO,
  RESERVING,
  type SettleBody,
  type SmallFacilitator,
  send,
  signedSettlement,
  startSmallFacilitator,
  TOKEN,
  testClock,
  testOptions,
  testProvider,
} from "../../../support/gate";
import { type SubscriptionWorld, startSubscriptionWorld } from "../../../support/subscriptions";
import { optionsOn, settleOnChain } from "../support/chain-provider";
import { ADAPTERS, type AdapterServer, type Handled, PREFIX } from "../support/frameworks";
import { v1Headers, v2Headers } from "../support/standard";
import { toyHeaders, toyPaid, toyPresented, toyQuotes, toyReceipt } from "./support/client";
import { toyProvider } from "./support/provider";

const KEY = { "Idempotency-Key": "one-purchase-of-this-test" };

const SECOND = { address: checksum(`0x${"90".repeat(20)}`), name: "Second USD", version: "1" };
const TWO = [{ amount: 500_000n }, { amount: 500_000n, token: SECOND }];

const ON_SECOND = {
  world: {
    chain: { chainId: CHAIN_ID, provider: { getBlock: async () => ({ timestamp: NOW }) } },
    contracts: { token: SECOND.address, tokenName: SECOND.name, tokenVersion: SECOND.version },
  } as never,
};

for (const name of ["Express 5", "Hono", "fetch"] as const) {
  describe(`a toy dialect and a toy scheme, through ${name}`, () => {
    const start = ADAPTERS[name] as (typeof ADAPTERS)[string];
    const clock = testClock();
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: AdapterServer;
    let served: number;
    let next: () => Handled | Promise<Handled>;
    let url: string;

    const log = console.error;
    beforeEach(async () => {
      console.error = () => undefined;
      clock.sec = NOW;
      facilitator = await startSmallFacilitator();
      facilitator.supported = RESERVING;
      provider = toyProvider(testOptions(facilitator, { publicUrl: "https://api.example", replay: {}, clock }));
      served = 0;
      next = () => ({ headers: { "Content-Type": "text/plain" }, body: "the content" });
      const handle = () => {
        served++;
        return next();
      };
      const gate = { pricing: ONE_TIME } as never;
      const dearer = { pricing: [{ type: "one-time", amount: 500_001n }] } as never;
      server = await start(provider, [
        { path: "/paid", gate, handle },
        { path: "/other", gate, handle },
        { path: "/dearer", gate: dearer, handle },
        { path: "/two", gate: { pricing: [{ type: "one-time", prices: TWO }] } as never, handle },
      ]);
      await provider.ready();
      url = `${server.url}${PREFIX}/paid`;
    });
    afterEach(async () => {
      console.error = log;
      await server.stop();
      await provider.close();
      await facilitator.stop();
    });

    const paths = () => facilitator.calls.map(({ path }) => path.replace(/0x[0-9a-f]{64}/, ":id"));
    const settlements = () => paths().filter((path) => path === "/settle").length;
    const seen = ({ status, json, headers }: Answer) => [status, json?.reason, headers["toy-receipt"]];

    it("quotes in its own header beside the unchanged body of x402", async () => {
      const plain = testProvider(facilitator, { publicUrl: "https://api.example", clock });
      const beside = await start(plain, [{ path: "/paid", gate: { pricing: ONE_TIME } as never, handle: () => ({}) }]);
      const without = await send(`${beside.url}${PREFIX}/paid`, { headers: KEY });
      await beside.stop();
      await plain.close();
      const withToy = await send(url, { headers: KEY });
      expect(withToy.text).to.equal(without.text);
      const { "toy-quote": _toy, date: _date, ...headersWith } = withToy.headers;
      const { date: _dateToo, ...headersWithout } = without.headers;
      expect(headersWith).to.deep.equal(headersWithout);
    });

    it("sells by both dialects, each with its own receipt", async () => {
      const quoted = await send(url);
      expect(quoted.status).to.equal(402);
      const [entry] = quoted.json.accepts;
      const [quote, ...more] = toyQuotes(quoted);
      expect(more).to.deep.equal([]);
      expect(quote).to.deep.include({ network: entry.network, payTo: PAY_TO, token: entry.token, amount: "500000" });
      expect(quoted.headers).to.have.property("payment-required");
      for (const headers of [await v1Headers(entry), await v2Headers(url)]) {
        const answer = await send(url, { headers });
        expect([answer.status, answer.headers["toy-receipt"]]).to.deep.equal([200, undefined]);
      }
    });

    it("C21 judges a payment by the entry that its memo names", async () => {
      const two = `${server.url}${PREFIX}/two`;
      const quoted = await send(two);
      expect(toyQuotes(quoted).map(({ token }) => token)).to.deep.equal([TOKEN, SECOND.address]);
      const [first, second] = [await toyPresented(quoted), await toyPresented(quoted, { entry: 1 }, ON_SECOND)];
      for (const [one, other] of [
        [first, second],
        [second, first],
      ] as const) {
        const swapped = toyHeaders({ ...one, memo: other.memo });
        expect(seen(await send(two, { headers: swapped }))).to.deep.equal([402, "signature", undefined]);
      }
      for (const [presented, asset] of [
        [first, TOKEN],
        [second, SECOND.address],
      ] as const) {
        expect((await send(two, { headers: toyHeaders(presented) })).status).to.equal(200);
        const { body } = facilitator.calls.at(-1) as { body: SettleBody };
        expect(body.paymentRequirements.asset).to.equal(asset);
      }
    });

    it("HA20 reserves, serves once, settles, and reports in its own header", async () => {
      next = () => {
        expect(paths()).to.deep.equal(["/verify"]);
        return { body: "the content" };
      };
      const answer = await send(url, { headers: await toyPaid(await send(url)) });
      expect([answer.status, answer.text, served]).to.deep.equal([200, "the content", 1]);
      expect(paths()).to.deep.equal(["/verify", "/settle"]);
      expect(toyReceipt(answer)).to.include({ transaction: `0x${"ab".repeat(32)}`, amount: "500000" });
      expect(answer.headers).to.not.have.any.keys("payment-response", "x-payment-response");
    });

    it("HA1 returns the kept answer to the same credential with its key, and 409 without one", async () => {
      const keyed = { ...(await toyPaid(await send(url, { headers: KEY }))), ...KEY };
      const first = await send(url, { headers: keyed });
      const again = await send(url, { headers: keyed });
      expect([again.status, again.text]).to.deep.equal([200, "the content"]);
      expect(toyReceipt(again)).to.deep.equal(toyReceipt(first));
      const bare = await toyPaid(await send(url));
      expect((await send(url, { headers: bare })).status).to.equal(200);
      expect(seen(await send(url, { headers: bare }))).to.deep.equal([409, "already_used", undefined]);
      expect([served, settlements()]).to.deep.equal([2, 2]);
    });

    it("HA1 runs one handler for copies at the same time", async () => {
      let goOn: () => void = () => undefined;
      let begin: () => void = () => undefined;
      const isFree = new Promise<void>((resolve) => {
        goOn = resolve;
      });
      const hasBegun = new Promise<void>((resolve) => {
        begin = resolve;
      });
      next = async () => {
        begin();
        await isFree;
        return { body: "the content" };
      };
      const headers = await toyPaid(await send(url));
      const first = send(url, { headers });
      await hasBegun;
      for (const { status } of await Promise.all([1, 2, 3].map(() => send(url, { headers })))) {
        expect(status).to.equal(409);
      }
      goOn();
      expect([(await first).status, served, settlements()]).to.deep.equal([200, 1, 1]);
    });

    it("refuses two payments in one request, one of each dialect", async () => {
      const headers = { ...(await toyPaid(await send(url))), ...(await v2Headers(url)) };
      const answer = await send(url, { headers });
      expect([answer.status, answer.json.error ?? answer.json.code]).to.deep.equal([400, "AmbiguousCredentials"]);
      expect([served, paths()]).to.deep.equal([0, []]);
    });

    it("answers 402 with the reason to what pays for something else, and moves nothing", async () => {
      const quoted = await send(url);
      const payable = await toyPresented(quoted);
      const headers = toyHeaders(payable);
      const [first = "", ...rest] = payable.memo.split(".");
      const forged = [first.replace(/^./, (letter) => (letter === "A" ? "B" : "A")), ...rest].join(".");
      const otherPayer = { ...payable.authorization, from: addressOf("another payer") };
      const late = { ...payable.authorization, validBefore: String(NOW + 3_600) };
      const refused: readonly (readonly [string, string, Answer])[] = [
        ["of another URL", "memo", await send(`${server.url}${PREFIX}/other`, { headers })],
        ["of another method", "memo", await send(url, { method: "POST", headers })],
        ["at another price", "memo", await send(`${server.url}${PREFIX}/dearer`, { headers })],
        ["of another amount", "memo", await paying(await toyPresented(quoted, { value: 499_999n }))],
        ["to another payee", "memo", await paying(await toyPresented(quoted, { to: addressOf("thief") }))],
        ["with a made-up memo", "memo", await paying({ ...payable, memo: forged })],
        ["with another's signature", "signature", await paying({ ...payable, authorization: otherPayer })],
        ["with a changed window", "signature", await paying({ ...payable, authorization: late })],
        ["without a memo", "malformed", await paying({ ...payable, memo: undefined })],
        ["that cannot be read", "malformed", await send(url, { headers: { "Toy-Payment": "?" } })],
      ];
      for (const [what, reason, answer] of refused) {
        expect([...seen(answer), answer.json?.accepts?.length], what).to.deep.equal([402, reason, undefined, 1]);
        expect(toyQuotes(answer), what).to.have.length(1);
      }
      clock.sec = NOW + 299;
      expect(seen(await send(url, { headers }))).to.deep.equal([402, "window", undefined]);
      clock.sec = NOW + 600;
      expect(seen(await send(url, { headers }))).to.deep.equal([402, "memo_expired", undefined]);
      expect([served, paths()]).to.deep.equal([0, []]);
    });

    const paying = (presented: object) => send(url, { headers: toyHeaders(presented) });

    it("HA20 charges nothing for a handler that fails, and serves the same payment afterwards", async () => {
      const headers = await toyPaid(await send(url));
      next = () => ({ status: 404, body: "not found" });
      const failed = await send(url, { headers });
      expect([failed.status, failed.text, toyReceipt(failed)]).to.deep.equal([404, "not found", undefined]);
      next = () => {
        throw new TypeError("thrown");
      };
      const thrown = await send(url, { headers });
      expect([thrown.status, toyReceipt(thrown)]).to.deep.equal([500, undefined]);
      expect([facilitator.reserved.size, settlements()]).to.deep.equal([0, 0]);
      next = () => ({ body: "the content" });
      expect((await send(url, { headers })).text).to.equal("the content");
      expect([served, settlements()]).to.deep.equal([3, 1]);
    });

    it("HA20 serves with its key what was reserved without it, by a run that died", async () => {
      const headers = await toyPaid(await send(url));
      let reserved: readonly (readonly [string, string])[] = [];
      next = () => {
        reserved = [...facilitator.reserved];
        return { status: 404 };
      };
      await send(url, { headers });
      for (const [paymentId, grantId] of reserved) facilitator.reserved.set(paymentId, grantId);
      next = () => ({ body: "the content" });
      const answer = await send(url, { headers: { ...headers, ...KEY } });
      expect([answer.status, served, reserved.length]).to.deep.equal([200, 2, 1]);
    });

    it("HA23 reports no receipt of a failure that had settled first", async () => {
      const headers = await toyPaid(await send(url));
      facilitator.verify = () => ({ isValid: false, invalidReason: "invalid_transaction_state" });
      facilitator.status = "settled";
      next = () => ({ status: 500, body: "broken" });
      const failed = await send(url, { headers });
      expect([failed.status, toyReceipt(failed), settlements()]).to.deep.equal([500, undefined, 1]);
      next = () => ({ body: "the content" });
      const answer = await send(url, { headers });
      expect([answer.status, toyReceipt(answer)?.amount, served]).to.deep.equal([200, "500000", 2]);
    });

    it("HA23 answers 503 while the outcome is unknown, and the kept answer once it is known, after the quote too", async () => {
      const headers = await toyPaid(await send(url));
      for (const answer of [refusal("settlement_pending"), { success: true, transaction: "0x", network: "x" }]) {
        facilitator.settlements.push(answer);
        const pending = await send(url, { headers });
        expect([pending.status, pending.text.includes("the content")]).to.deep.equal([503, false]);
      }
      clock.sec = NOW + 700;
      facilitator.status = "pending";
      const answer = await send(url, { headers });
      expect([answer.status, answer.text, served]).to.deep.equal([200, "the content", 1]);
      expect(toyReceipt(answer)).to.include({ amount: "500000" });
    });

    it("HA23 answers 409 where the money may have moved for something else, and 402 where it has not", async () => {
      for (const [reason, status] of Object.entries({
        payment_already_granted: 409,
        invalid_transaction_state: 409,
        invalid_exact_evm_nonce_already_used: 409,
        a_reason_of_another_maker: 409,
        invalid_exact_evm_insufficient_balance: 402,
        invalid_exact_evm_transaction_failed: 409,
        terms: 402,
      })) {
        const before = { ...facilitator };
        const headers = await toyPaid(await send(url));
        facilitator.verify = () => ({ isValid: false, invalidReason: reason });
        expect(seen(await send(url, { headers })), `${reason} before`).to.deep.equal([status, reason, undefined]);
        facilitator.verify = before.verify;
        facilitator.settle = () => refusal(reason);
        const after = await send(url, { headers });
        expect(seen(after), `${reason} after the handler`).to.deep.equal([status, reason, undefined]);
        expect(after.text).to.not.include("the content");
        facilitator.settle = before.settle;
      }
    });

    it("HA20 runs no handler where nothing is reserved or nobody answers", async () => {
      const headers = await toyPaid(await send(url));
      facilitator.verify = () => ({ isValid: true, payer: addressOf("payer") as Hex });
      expect((await send(url, { headers })).status).to.equal(503);
      facilitator.mode = "down";
      expect((await send(url, { headers })).status).to.equal(503);
      expect(served).to.equal(0);
    });
  });
}

describe("a toy scheme on a chain", function () {
  this.timeout(120_000);
  let world: SubscriptionWorld;
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let server: AdapterServer;
  let url: string;

  before(async () => {
    world = await startSubscriptionWorld();
    facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
  });
  after(async () => {
    await facilitator.stop();
    await world.stop();
  });
  afterEach(async () => {
    await server.stop();
    await provider.close();
  });

  async function serve(options: object): Promise<void> {
    provider = toyProvider(
      testOptions(facilitator, optionsOn(world, { publicUrl: "https://api.example", settleWaitMs: 0, ...options })),
    );
    const handle = () => ({ body: "the content" });
    server = await (ADAPTERS.fetch as (typeof ADAPTERS)[string])(provider, [
      { path: "/paid", gate: { pricing: ONE_TIME } as never, handle },
    ]);
    await provider.ready();
    url = `${server.url}${PREFIX}/paid`;
  }
  const pay = async () => toyPaid(await send(url), { world });

  it("HA2 with verify onchain, serves what the token's own logs show, and nothing on a signed statement", async () => {
    await serve({ verify: "onchain" });
    const headers = await pay();
    facilitator.settle = async (asked) => signedSettlement(asked, `0x${"ab".repeat(32)}`, "facilitator");
    const lied = await send(url, { headers });
    expect([lied.status, lied.text.includes("the content")]).to.deep.equal([503, false]);
    facilitator.settle = async (asked) => signedSettlement(asked, await settleOnChain(world, asked), "facilitator");
    const paid = await send(url, { headers });
    expect([paid.status, paid.text], paid.text).to.deep.equal([200, "the content"]);
  });

  it("HA2 with another vendor's Facilitator, accepts no authorization that was used before it came here", async () => {
    const at = { url: facilitator.url, signers: [facilitator.signer], trustUnsigned: true };
    await serve({ facilitator: at });
    const headers = await pay();
    let settled: Hex | undefined;
    facilitator.settle = async (asked) => {
      settled ??= await settleOnChain(world, asked);
      return signedSettlement({ ...asked, grant: undefined as never }, settled, "x");
    };
    expect((await send(url, { headers })).status).to.equal(200);
    await server.stop();
    await provider.close();
    // Another gate: the transfer exists, and has already bought a response.
    facilitator.verify = () => ({ isValid: true, payer: addressOf("payer") as Hex, reserved: true });
    await serve({ facilitator: at });
    const answer = await send(url, { headers });
    expect([answer.status, answer.json?.reason], answer.text).to.deep.equal([409, "authorization_used"]);
  });
});

const refusal = (errorReason: string) => ({ success: false, errorReason, transaction: "", network: "local-31337" });
