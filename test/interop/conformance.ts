import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import { agentOf, v2Client, walletOf } from "./support/clients";
import { type Answer, writeConformance } from "./support/conformance-page";
import { ADAPTERS, type Served } from "./support/gates";
import { type Recorded, readByCore } from "./support/recorded";
import { reasonsOf, v1, v2 } from "./support/stock";
import { STOCK_FACILITATORS, type StockFacilitator } from "./support/stock-facilitators";
import { STOCK_SERVERS } from "./support/stock-servers";
import { CAIP2, type InteropWorld, startInteropWorld, V1_NETWORK } from "./support/world";

/** Of the specification of version 2, beside the words of the packages. */
const SPECIFIED = ["invalid_payload", "invalid_payment_requirements", "invalid_transaction_state"];

// Each kind of answer, recorded and given to the schema that stock software reads it with.
describe("interop > conformance", function () {
  // Many real blocks, on machines that may be slow.
  this.timeout(240_000);
  let world: InteropWorld;
  let provider: Provider;
  let server: Served;
  let stock: StockFacilitator;
  const stockServers: Served[] = [];
  const tried: Answer[] = [];

  before(async () => {
    world = await startInteropWorld();
    provider = world.provider();
    const plan = { type: "subscription", plan: world.planId } as const;
    const start = ADAPTERS["node:http"];
    if (!start) throw new TypeError("no node:http");
    server = await start(provider, {
      "/one": { pricing: [{ type: "one-time", amount: 1_000n }] },
      "/first": { pricing: [{ type: "one-time", amount: 1_000n }], settle: "before" },
      "/choice": { pricing: [plan, { type: "one-time", amount: 1_000n }], discovery: { queryParams: { a: "b" } } },
      "/plan": { pricing: [plan] },
      "/long": { pricing: [{ type: "one-time", amount: 1_000n }], description: "long ".repeat(1_000) },
      "/free": { pricing: [{ type: "one-time", amount: 1_000n }], chargeFor: () => false },
    });
    stock = await (STOCK_FACILITATORS["@x402/core 2.27.0"] as (w: InteropWorld) => Promise<StockFacilitator>)(world);
  });
  after(async () => {
    writeConformance(tried);
    for (const started of [server, ...stockServers]) await started.stop();
    await stock.stop();
    await provider.close();
    await world.stop();
  });

  /** One row of the page, and one test. */
  function answer(row: Omit<Answer, "result">, work: () => Promise<void>): void {
    it(`${row.sender}: ${row.answer} (${row.reader})`, async () => {
      let result = "failed";
      try {
        await work();
        result = "accepted";
      } finally {
        tried.push({ ...row, result });
      }
    });
  }

  const decodedHeader = (response: Response, name: string) =>
    JSON.parse(Buffer.from(String(response.headers.get(name)), "base64").toString("utf8"));

  const payloadText = (x402Version: unknown) => JSON.stringify({ x402Version, payload: {} });

  /** Headers that no server of the reference reads, by the end of a path. */
  const UNREAD: Readonly<Record<string, Record<string, string>>> = {
    misplaced: { authorization: `Bearer ${btoa(payloadText(2))}` },
    signature: { "x-payment-signature": btoa(payloadText(2)) },
    version3: { "payment-signature": btoa(payloadText(3)) },
    text: { "payment-signature": btoa(payloadText("2")) },
    none: { "x-payment": btoa(payloadText(undefined)) },
    empty: { "x-payment": "" },
    json: { "payment-signature": payloadText(2) },
  };

  const asked = (path: string) => {
    const [at, unread = ""] = path.split("#");
    return fetch(`${server.url}${at}`, { headers: UNREAD[unread] ?? {} });
  };

  for (const [path, what] of [
    ["/one", "a one-time price"],
    ["/first", "a price that settles before the handler"],
    ["/choice", "a price beside a plan"],
    ["/plan", "plans alone"],
    ["/long", "a description that is shortened"],
    ["/one#misplaced", "to a payload in Authorization"],
    ["/one#signature", "to a payload in X-PAYMENT-SIGNATURE"],
    ["/one#version3", "to a payload of version 3"],
    ["/one#text", 'to a payload of version "2"'],
    ["/one#none", "to a payload without a version"],
    ["/one#empty", "to an empty header"],
    ["/one#json", "to a payload that is not encoded"],
  ] as const) {
    answer(
      { sender: "gate", answer: `PAYMENT-REQUIRED, ${what}`, reader: "@x402/core PaymentRequiredV2Schema" },
      async () => {
        const response = await asked(path);
        expect(response.status).to.equal(402);
        const required = decodedHeader(response, "PAYMENT-REQUIRED");
        expect(required.x402Version).to.equal(2);
        v2.schemas().validatePaymentRequired(required);
      },
    );
    answer({ sender: "gate", answer: `402 body, ${what}`, reader: "@x402/core PaymentRequiredV1Schema" }, async () => {
      v2.schemas().validatePaymentRequired(await (await asked(path)).json());
    });
    if (path === "/plan") continue;
    answer({ sender: "gate", answer: `402 body, ${what}`, reader: "x402 PaymentRequirementsSchema" }, async () => {
      const { accepts } = (await (await asked(path)).json()) as { accepts: object[] };
      for (const entry of accepts) v1.types().PaymentRequirementsSchema.parse(entry);
    });
  }

  async function paidBy(version: 1 | 2, path: string): Promise<Response> {
    const { account } = await world.payer();
    const pay =
      version === 1
        ? v1.fetch().wrapFetchWithPayment(fetch, walletOf(world, account))
        : v2.fetch().wrapFetchWithPayment(fetch, v2Client(v2.fetch(), account));
    return pay(`${server.url}${path}`);
  }

  for (const path of ["/one", "/first"]) {
    const flow = path === "/one" ? "settled after the handler" : "settled before the handler";
    answer(
      { sender: "gate", answer: `PAYMENT-RESPONSE, ${flow}`, reader: "@x402/core settleResponseSchema" },
      async () => {
        const text = JSON.stringify(decodedHeader(await paidBy(2, path), "PAYMENT-RESPONSE"));
        expect(await readByCore("settle", { status: 200, text })).to.include({ success: true, network: CAIP2 });
      },
    );
    answer({ sender: "gate", answer: `X-PAYMENT-RESPONSE, ${flow}`, reader: "x402 SettleResponseSchema" }, async () => {
      const receipt = decodedHeader(await paidBy(1, path), "X-PAYMENT-RESPONSE");
      expect(v1.types().SettleResponseSchema.parse(receipt)).to.include({ success: true, network: V1_NETWORK });
    });
  }

  /** A payment of version 2 for a path; `yParity` writes its signature's last byte as 0 or 1. */
  async function signed(path: string, yParity = false): Promise<string> {
    const { accepts } = decodedHeader(await asked(path), "PAYMENT-REQUIRED") as { accepts: object[] };
    const { account } = await world.payer();
    const resource = { url: `${server.url}${path}` };
    const made = await v2Client(v2.fetch(), account).createPaymentPayload({ x402Version: 2, resource, accepts });
    const payment = made as { payload: { signature: string } };
    if (yParity) payment.payload.signature = payment.payload.signature.replace(/1b$/, "00").replace(/1c$/, "01");
    return v2.http().encodePaymentSignatureHeader(payment);
  }

  for (const [what, names, yParity] of [
    ["a payload in both headers", ["X-PAYMENT", "PAYMENT-SIGNATURE"], false],
    ["a payload in the other version's header", ["X-PAYMENT"], false],
    ["v of 0 or 1", ["PAYMENT-SIGNATURE"], true],
  ] as const) {
    const row = {
      sender: "gate",
      answer: `PAYMENT-RESPONSE, ${what}`,
      reader: "@x402/core settleResponseSchema",
    } as const;
    answer(row, async () => {
      const header = await signed("/one", yParity);
      const headers = Object.fromEntries(names.map((name) => [name, header]));
      const served = await fetch(`${server.url}/one`, { headers });
      expect(served.status, await served.clone().text()).to.equal(200);
      const text = JSON.stringify(decodedHeader(served, "PAYMENT-RESPONSE"));
      expect(await readByCore("settle", { status: 200, text })).to.include({ success: true, network: CAIP2 });
    });
  }

  answer(
    { sender: "gate", answer: "an answer that chargeFor leaves out", reader: "@x402/fetch wrapFetchWithPayment" },
    async () => {
      const served = await paidBy(2, "/free");
      expect([served.status, served.headers.get("PAYMENT-RESPONSE")]).to.deep.equal([200, null]);
    },
  );

  for (const [name, header, reader] of [
    ["x402-express", "X-PAYMENT", "x402 PaymentPayloadSchema"],
    ["@x402/express", "PAYMENT-SIGNATURE", "@x402/core PaymentPayloadV2Schema"],
  ] as const) {
    answer({ sender: "agent", answer: `${header}, to ${name}`, reader }, async () => {
      const at = await STOCK_SERVERS[name](world, world.facilitatorUrl, { prices: { "/r": "$0.001" } });
      stockServers.push(at);
      const sent: string[] = [];
      const spy: typeof fetch = (input, init) => {
        const value = new Headers(init?.headers).get(header);
        if (value !== null) sent.push(value);
        return fetch(input, init);
      };
      const agent = agentOf(world, await world.payer(), 100_000n, undefined, spy);
      expect((await agent.pay(`${at.url}/r`)).status).to.equal(200);
      await agent.close();
      const payload = JSON.parse(Buffer.from(String(sent[0]), "base64").toString("utf8"));
      v2.schemas().validatePaymentPayload(payload);
      if (header === "X-PAYMENT") v1.types().PaymentPayloadSchema.parse(payload);
    });
  }

  const requirements = (amount: unknown = "1000") => ({
    scheme: "exact",
    network: CAIP2,
    amount,
    asset: world.usdc.address,
    payTo: world.payTo,
    maxTimeoutSeconds: 60,
    extra: { name: world.usdc.name, version: world.usdc.version },
  });

  async function payloadV2(more: object = {}) {
    const { account } = await world.payer();
    const client = v2Client(v2.fetch(), account, { unlimited: true });
    const resource = { url: "https://api.example/r" };
    const made = await client.createPaymentPayload({ x402Version: 2, resource, accepts: [requirements()] });
    return { ...(made as object), ...more } as { payload: { authorization: object } };
  }

  async function post(path: string, body: unknown, url = world.facilitatorUrl): Promise<Recorded> {
    const headers = { "Content-Type": "application/json" };
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const response = await fetch(`${url}${path}`, { method: "POST", headers, body: text });
    return { status: response.status, text: await response.text() };
  }

  const bodyOf = (paymentPayload: object, paymentRequirements: object = requirements()) => ({
    x402Version: 2,
    paymentPayload,
    paymentRequirements,
  });

  const facilitator = (what: string, reader: string, work: () => Promise<void>) =>
    answer({ sender: "Facilitator", answer: what, reader }, work);

  facilitator("/supported", "@x402/core supportedResponseSchema", async () => {
    const response = await fetch(`${world.facilitatorUrl}/supported`);
    const read = await readByCore("supported", { status: response.status, text: await response.text() });
    expect(read).to.have.property("kinds").that.deep.includes({ x402Version: 2, scheme: "exact", network: CAIP2 });
  });

  facilitator("/verify and /settle, accepted", "@x402/core verify- and settleResponseSchema", async () => {
    // Optional fields absent, and null: both are what the schemas allow.
    for (const more of [{}, { resource: null, extensions: null }, { resource: undefined }]) {
      const body = bodyOf(await payloadV2(more));
      expect(await readByCore("verify", await post("/verify", body)), JSON.stringify(more)).to.include({
        isValid: true,
      });
      expect(await readByCore("settle", await post("/settle", body))).to.include({ success: true });
    }
  });

  facilitator("/verify and /settle, refused", "@x402/core verify- and settleResponseSchema", async () => {
    const words = reasonsOf("@x402/evm", "@x402/core/server");
    const payload = await payloadV2();
    const used = await payloadV2();
    await world.spend(used);
    const refused: [payload: object, required: object][] = [
      [{ ...payload, payload: { ...payload.payload, signature: `0x${"11".repeat(65)}` } }, requirements()],
      [payload, requirements("1001")],
      [payload, { ...requirements(), payTo: world.usdc.address }],
      [payload, { ...requirements(), extra: { assetTransferMethod: "other" } }],
      [payload, { ...requirements(), network: "eip155:1" }],
      [used, requirements()],
    ];
    for (const [sent, required] of refused) {
      const verdict = await readByCore("verify", await post("/verify", bodyOf(sent, required)));
      expect(verdict).to.include({ isValid: false });
      const { invalidReason } = verdict as { invalidReason: string };
      expect([...words, ...SPECIFIED]).to.include(invalidReason);
      const outcome = await readByCore("settle", await post("/settle", bodyOf(sent, required)));
      expect(outcome).to.include({ success: false, errorReason: invalidReason });
    }
  });

  facilitator("400 of /verify and /settle", "@x402/core's client, as its own error", async () => {
    for (const [endpoint, code] of [
      ["verify", "VerifyError"],
      ["settle", "SettleError"],
    ] as const) {
      const error = await readByCore(endpoint, await post(`/${endpoint}`, "{")).catch((thrown: Error) => thrown);
      expect([(error as Error).name, JSON.stringify(error)]).to.satisfy(
        ([name, text]: string[]) => name === code && text?.includes("invalid_payload"),
      );
    }
  });

  /** By the reference, an amount is what BigInt reads; written in canonical form it is equal everywhere. */
  const NOTATIONS: unknown[] = [
    "1000",
    "01000",
    "1e3",
    "1000.0",
    "0x3e8",
    " 1000",
    "+1000",
    "1_000",
    "-1000",
    "",
    1_000,
  ];
  it("C8 accepts an amount in one notation, and never one that the reference refuses", async () => {
    const accepted = async (url: string, body: object) => {
      const { status, text } = await post("/verify", body, url);
      return status === 200 && JSON.parse(text).isValid === true;
    };
    for (const notation of NOTATIONS) {
      const payload = await payloadV2();
      const altered = { ...payload.payload, authorization: { ...payload.payload.authorization, value: notation } };
      for (const [where, body] of [
        ["requirements", bodyOf(payload, requirements(notation))],
        ["both", bodyOf({ ...payload, accepted: requirements(notation) }, requirements(notation))],
        ["authorization", bodyOf({ ...payload, payload: altered })],
      ] as const) {
        const [ours, theirs] = [await accepted(world.facilitatorUrl, body), await accepted(stock.url, body)];
        expect(ours, `${JSON.stringify(notation)} in ${where}`).to.equal(notation === "1000");
        expect(theirs || !ours, `${JSON.stringify(notation)} in ${where}: the reference refuses it`).to.equal(true);
      }
    }
  });

  it("C8 the gate takes no amount in another notation either, and runs nothing for it", async () => {
    const { accepts } = decodedHeader(await asked("/one"), "PAYMENT-REQUIRED") as { accepts: { amount: string }[] };
    const { account } = await world.payer();
    const before = server.runs();
    for (const amount of ["01000", "1e3", "0x3e8", "1000.0"]) {
      const made = await v2Client(v2.fetch(), account).createPaymentPayload({
        x402Version: 2,
        resource: { url: `${server.url}/one` },
        accepts,
      });
      const accepted = { ...accepts[0], amount };
      const header = v2.http().encodePaymentSignatureHeader({ ...made, accepted });
      const refused = await fetch(`${server.url}/one`, { headers: { "PAYMENT-SIGNATURE": header } });
      expect([refused.status, server.runs()], amount).to.deep.equal([402, before]);
    }
  });

  it("the gate takes a payload of version 2 whose optional fields are absent or null", async () => {
    for (const more of [
      { resource: null, extensions: null },
      { resource: undefined, extensions: undefined },
    ]) {
      const { accepts } = decodedHeader(await asked("/one"), "PAYMENT-REQUIRED") as { accepts: object[] };
      const { account } = await world.payer();
      const resource = { url: `${server.url}/one` };
      const made = await v2Client(v2.fetch(), account).createPaymentPayload({ x402Version: 2, resource, accepts });
      const header = v2.http().encodePaymentSignatureHeader({ ...made, ...more });
      const served = await fetch(`${server.url}/one`, { headers: { "PAYMENT-SIGNATURE": header } });
      expect(served.status, await served.text()).to.equal(200);
    }
  });
});
