import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import {
  type AcceptEntryWire,
  encodeJsonHeader,
  type Hex,
  keccakText,
  parseMemo,
  paymentNonce,
  signDigest,
  transferTypedData,
  typedDataDigest,
} from "turnpike/protocol";
import {
  addressOf,
  CHAIN_ID,
  FRAMEWORKS,
  headerOf,
  keyOf,
  NOW,
  ONE_TIME,
  proofOf,
  quoteOf,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestServer,
  TOKEN,
  testProvider,
} from "../../../support/gate";
import { wrapSignature } from "../../../support/undeployed-wallets";

interface Fields {
  readonly to?: string;
  readonly value?: bigint;
  readonly validBefore?: number;
  readonly nonce?: Hex;
  readonly signedBy?: string;
}

let nonces = 0;

function exactPayload(entry: AcceptEntryWire, fields: Fields = {}) {
  const authorization = {
    from: addressOf("payer"),
    to: (fields.to ?? entry.payTo) as Hex,
    value: fields.value ?? BigInt(entry.amount ?? "0"),
    validAfter: 0n,
    validBefore: BigInt(fields.validBefore ?? NOW + 300),
    nonce: fields.nonce ?? keccakText(`nonce ${nonces++}`),
  };
  const domain = { chainId: CHAIN_ID, token: TOKEN, name: "Test USD", version: "1" };
  const signature = signDigest(
    typedDataDigest(transferTypedData(domain, authorization)),
    keyOf(fields.signedBy ?? "payer"),
  );
  const wire = Object.fromEntries(Object.entries(authorization).map(([name, value]) => [name, String(value)]));
  return { signature, authorization: wire };
}

const v1 = (entry: AcceptEntryWire, fields?: Fields, network = entry.network) => ({
  "X-PAYMENT": encodeJsonHeader({ x402Version: 1, scheme: "exact", network, payload: exactPayload(entry, fields) }),
});

describe("standard x402 payloads", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let server: TestServer;
  let url: string;
  let entry: AcceptEntryWire;

  beforeEach(async () => {
    facilitator = await startSmallFacilitator();
    provider = testProvider(facilitator);
    server = await FRAMEWORKS.express(provider, [
      { path: "/report", gate: { pricing: ONE_TIME } },
      { path: "/other", gate: { pricing: ONE_TIME } },
    ]);
    url = `${server.url}/report`;
    entry = (await quoteOf(url)).accepts[0] as AcceptEntryWire;
  });
  afterEach(async () => {
    await server.stop();
    await provider.close();
    await facilitator.stop();
  });

  it("settles a version 1 payload and serves, once", async () => {
    const headers = v1(entry);
    const answer = await send(url, { headers });
    expect(answer.status, answer.text).to.equal(200);
    const [settle] = facilitator.calls;
    expect(settle?.path).to.equal("/settle");
    const { paymentRequirements } = (settle?.body ?? {}) as { paymentRequirements?: object };
    expect(paymentRequirements).to.include({
      maxAmountRequired: "500000",
      payTo: entry.payTo,
      asset: TOKEN,
      resource: url,
    });
    const receipt = JSON.parse(Buffer.from(answer.headers["x-payment-response"] as string, "base64").toString());
    expect(receipt).to.include({ success: true, transaction: `0x${"ab".repeat(32)}` });
    expect((await send(url, { headers })).json).to.include({ error: "PaymentAlreadyUsed", reason: "already_used" });
    expect((await send(`${server.url}/other`, { headers })).json.reason).to.equal("already_used");
    expect(facilitator.calls).to.have.length(1);
  });

  it("refuses a payload that pays no current option", async () => {
    const wrong: [string, Record<string, string>][] = [
      ["terms", v1(entry, { value: 499_999n })],
      ["terms", v1(entry, { value: 500_001n })],
      ["terms", v1(entry, { to: addressOf("other") })],
      ["window", v1(entry, { validBefore: NOW + 361 })],
      ["window", v1(entry, { validBefore: NOW })],
      ["network", v1(entry, {}, "base")],
    ];
    for (const [reason, headers] of wrong) {
      const answer = await send(url, { headers });
      expect(answer.status, reason).to.equal(402);
      expect(answer.json.reason).to.equal(reason);
    }
    expect(facilitator.calls).to.have.length(0);
  });

  it("leaves a signature by another key to the Facilitator, because the payer may be a contract wallet", async () => {
    const reason = "invalid_exact_evm_payload_signature";
    facilitator.settlements.push({ success: false, errorReason: reason, transaction: "", network: entry.network });
    const answer = await send(url, { headers: v1(entry, { signedBy: "mallory" }) });
    expect([answer.status, answer.json.reason]).to.deep.equal([402, reason]);
    expect(server.served.get("/report")).to.equal(undefined);
  });

  it("A8 leaves the signature of a wallet that is not deployed to the Facilitator, and serves by its word alone", async () => {
    const { authorization, signature } = exactPayload(entry, { signedBy: "owner of the wallet" });
    const wrapped = wrapSignature(signature, { factory: TOKEN, data: "0x1234" });
    const payload = { signature: wrapped, authorization };
    const headers = {
      "X-PAYMENT": encodeJsonHeader({ x402Version: 1, scheme: "exact", network: entry.network, payload }),
    };
    const reason = "eip6492_factory_not_allowed";
    facilitator.settlements.push({ success: false, errorReason: reason, transaction: "", network: entry.network });
    const refused = await send(url, { headers });
    expect([refused.status, refused.json.reason]).to.deep.equal([402, reason]);
    expect(server.served.get("/report")).to.equal(undefined);
    expect((await send(url, { headers })).status).to.equal(200);
    expect(JSON.stringify(facilitator.calls), "the wrapper reaches the Facilitator").to.contain(wrapped);
  });

  it("C17 without signers of another vendor's Facilitator, serves what it settles, and no proof", async () => {
    const at = { url: facilitator.url, signers: [], trustUnsigned: true };
    const unsigned = testProvider(facilitator, { facilitator: at });
    const gated = await FRAMEWORKS.express(unsigned, [{ path: "/report", gate: { pricing: ONE_TIME } }]);
    try {
      const there = `${gated.url}/report`;
      const quoted = (await quoteOf(there)).accepts[0] as AcceptEntryWire;
      expect((await send(there, { headers: headerOf(proofOf(quoted)) })).status, "a proof").to.equal(402);
      expect(gated.served.get("/report")).to.equal(undefined);
      expect((await send(there, { headers: v1(quoted) })).status, "a settled payment").to.equal(200);
      const transaction = `0x${"ef".repeat(32)}`;
      const payer = addressOf("payer");
      facilitator.settlements.push({ success: true, transaction, payer, network: quoted.network });
      const plainly = await send(there, { headers: v1(quoted) });
      expect(plainly.status, plainly.text).to.equal(200);
      const plan = { type: "subscription", plan: `0x${"ab".repeat(32)}` } as const;
      expect(() => unsigned.gate({ pricing: [plan] })).to.throw("facilitator.signers is empty");
    } finally {
      await gated.stop();
      await unsigned.close();
    }
    const trusting = testProvider(facilitator, { facilitator: { ...at, trustUnsigned: false } });
    expect(() => trusting.gate({ pricing: ONE_TIME })).to.throw("facilitator.signers is empty");
    await trusting.close();
  });

  it("returns 402 for a refused settlement and 503 for an outage, and accepts the same payload afterwards", async () => {
    const headers = v1(entry);
    const refused = { success: false, errorReason: "insufficient_funds", transaction: "", network: entry.network };
    for (let i = 0; i < 5; i++) {
      facilitator.settlements.push(refused);
      expect((await send(url, { headers })).json.reason).to.equal("insufficient_funds");
    }
    facilitator.mode = "down";
    expect((await send(url, { headers })).status).to.equal(503);
    facilitator.mode = "valid";
    expect((await send(url, { headers })).status).to.equal(200);
  });

  it("settles only a version 2 payload that echoes its memo", async () => {
    const answer = await send(url);
    const required = JSON.parse(Buffer.from(answer.headers["payment-required"] as string, "base64").toString());
    const accepted = required.accepts[0];
    const v2 = (change: object = {}, resource = url) => ({
      "PAYMENT-SIGNATURE": encodeJsonHeader({
        x402Version: 2,
        payload: exactPayload(entry),
        accepted: { ...accepted, ...change },
        resource: { url: resource },
      }),
    });
    const other = JSON.parse(
      Buffer.from((await send(`${server.url}/other`)).headers["payment-required"] as string, "base64").toString(),
    ).accepts[0];
    for (const [reason, headers] of [
      ["memo", v2({ extra: { name: "Test USD", version: "1" } })],
      ["memo", v2({ extra: other.extra })],
      ["terms", v2({ amount: "1" })],
      ["network", v2({ network: "eip155:1" })],
    ] as const) {
      expect((await send(url, { headers })).json.reason, reason).to.equal(reason);
    }
    const paid = await send(url, { headers: v2() });
    expect(paid.status, paid.text).to.equal(200);
    expect(paid.headers).to.have.property("payment-response");
  });

  it("C1b grants one request for a native authorization that is also presented as a standard payload", async () => {
    const ref = parseMemo(entry.memo)?.ref as string;
    const nonce = paymentNonce(ref, url);
    const stolen = v1(entry, { nonce });
    const proof = headerOf(proofOf(entry));
    expect((await send(url, { headers: proof })).status).to.equal(200);
    expect((await send(url, { headers: stolen })).json.reason).to.equal("already_used");

    const fresh = (await quoteOf(url)).accepts[0] as AcceptEntryWire;
    const second = v1(fresh, { nonce: paymentNonce(parseMemo(fresh.memo)?.ref as string, url) });
    const otherChannel = {
      success: false,
      errorReason: "invalid_transaction_state",
      transaction: "",
      network: entry.network,
    };
    // A stranger's attempts do not use the payer's own proof.
    for (let i = 0; i < 6; i++) {
      facilitator.settlements.push(otherChannel);
      expect((await send(url, { headers: second })).status).to.equal(402);
    }
    expect((await send(url, { headers: headerOf(proofOf(fresh)) })).status).to.equal(200);
  });
});
