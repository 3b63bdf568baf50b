/** HA30: what a provider signs about a payment (the extension offer-receipt), judged by the agent. */
import { writeFileSync } from "node:fs";
import path from "node:path";
import { ed25519 } from "@noble/curves/ed25519";
import { secp256k1 } from "@noble/curves/secp256k1";
import { expect } from "chai";
import { type AgentPolicy, type JudgedReceipt, memoryLedger } from "turnpike/agent";
import { type ReceiptPayload, ReceiptRejected, sha256, toBase64Url, utf8ToBytes } from "turnpike/protocol";
import { bare, highS } from "../../support/signature-forms";
import { removeTerminals, terminal } from "../cli/support/run";
import { rejection } from "./support/rejection";
import { closeAll } from "./support/servers";
import { type Statements, startStandardServer } from "./support/standard-server";
import { signedOffer, signedReceipt } from "./support/statements";
import { addressOf, agentFor, Chain, TOKEN, transfersSigned } from "./support/world";

const HEX_32 = (byte: string) => `0x${byte.repeat(32)}` as const;

const base64Of = (value: object) => toBase64Url(utf8ToBytes(JSON.stringify(value)));

interface JwsKey {
  readonly alg: string;
  readonly kid: string;
  sign(message: Uint8Array): Uint8Array;
}

function jws(payload: object, { alg, kid, sign }: JwsKey) {
  const signed = `${base64Of({ alg, kid })}.${base64Of(payload)}`;
  return { format: "jws", signature: `${signed}.${toBase64Url(sign(utf8ToBytes(signed)))}` };
}

/** A statement whose payload lacks a field that it was signed with. */
const without = <T extends { readonly payload: object }>(signed: T, field: keyof T["payload"] & string) => ({
  ...signed,
  payload: { ...signed.payload, [field]: undefined },
});

const SECRET = new Uint8Array(32).fill(5);

const JWS_KEYS: Readonly<Record<string, JwsKey>> = {
  "ES256K and did:jwk": {
    alg: "ES256K",
    kid: (() => {
      const point = secp256k1.getPublicKey(SECRET, false);
      const jwk = { kty: "EC", crv: "secp256k1", x: toBase64Url(point.slice(1, 33)), y: toBase64Url(point.slice(33)) };
      return `did:jwk:${base64Of(jwk)}#0`;
    })(),
    sign: (message) => secp256k1.sign(sha256(message), SECRET).toCompactRawBytes(),
  },
  "EdDSA and did:key": {
    alg: "EdDSA",
    // of the public key of 32 bytes of 5, multicodec 0xed01, base58
    kid: "did:key:z6MkmtWtY63GQVBrpMyRJWEzsnxfsGkemu6CtMDwGTv4RYj2#key",
    sign: (message) => ed25519.sign(message, SECRET),
  },
};

describe("agent > offers and receipts of providers", () => {
  let chain: Chain;
  beforeEach(() => {
    chain = new Chain();
    chain.nowSec = Math.floor(Date.now() / 1_000);
  });
  afterEach(async () => {
    removeTerminals();
    await closeAll();
  });

  const serverOf = (signs: Statements) => startStandardServer(chain, { version: 2, signs });

  function agentOf(policy: Partial<AgentPolicy> = {}, ledger = memoryLedger()) {
    const limits = { perPayment: 1_000_000n, perDay: 10_000_000n, tokens: [TOKEN] };
    return agentFor("http://127.0.0.1:1", { policy: { ...limits, ...policy }, ledger });
  }

  const honest: Statements = { offers: (terms) => [signedOffer(terms)], receipt: (facts) => signedReceipt(facts) };

  it("are verified, returned with the answer and kept in the ledger", async () => {
    const server = await serverOf(honest);
    const ledger = memoryLedger();
    const { agent } = agentOf({ requireReceipt: true }, ledger);
    const { receipt } = await agent.pay(`${server.url}/weather?city=x`);
    const by = { signer: addressOf("provider"), trustedBy: "payTo" };
    expect(receipt?.signedOffer).to.include(by);
    expect(receipt?.signedOffer?.payload).to.include({ amount: "10000", resourceUrl: `${server.url}/weather` });
    expect(receipt?.signedReceipt).to.include(by);
    expect(receipt?.signedReceipt?.fault ?? receipt?.signedOffer?.fault).to.equal(undefined);
    expect(receipt?.signedReceipt?.payload).to.include({ transaction: receipt?.transaction });
    await agent.close();
    const [kept] = await agentOf({}, ledger).agent.payments();
    expect(kept?.signedReceipt).to.deep.equal(receipt?.signedReceipt);
    expect(kept?.signedOffer?.signed).to.deep.equal(receipt?.signedOffer?.signed);
  });

  it("count with a v of 0 or 1, as one statement with the other form", async () => {
    const signed = <S extends { signature: string }>(statement: S) => ({
      ...statement,
      signature: bare(statement.signature),
    });
    const server = await serverOf({
      offers: (terms) => [signed(signedOffer(terms))],
      receipt: (facts) => signed(signedReceipt(facts)),
    });
    const { receipt } = await agentOf({ requireReceipt: true }).agent.pay(server.url);
    for (const statement of [receipt?.signedOffer, receipt?.signedReceipt]) {
      expect([statement?.trustedBy, statement?.fault]).to.deep.equal(["payTo", undefined]);
      expect(statement?.signed?.signature).to.match(/1[bc]$/);
    }
  });

  it("of a server that signs none leave the answer as it is", async () => {
    const { receipt } = await agentOf().agent.pay((await serverOf({})).url);
    expect([receipt?.signedOffer, receipt?.signedReceipt]).to.deep.equal([undefined, undefined]);
  });

  for (const [kind, key] of Object.entries(JWS_KEYS)) {
    it(`HA30 in a JWS of ${kind} are verified, and count where the policy names the key`, async () => {
      const [did = ""] = key.kid.split("#");
      const server = await serverOf({ offers: (terms) => [jws(terms, key)], receipt: (facts) => jws(facts, key) });
      const unnamed = await agentOf().agent.pay(server.url);
      expect(unnamed.receipt?.signedReceipt).to.include({ signer: did });
      expect([unnamed.receipt?.signedReceipt?.fault, unnamed.receipt?.signedReceipt?.trustedBy]).to.deep.equal([
        undefined,
        undefined,
      ]);
      const named = agentOf({ requireReceipt: true, receiptSigners: { [server.url]: [did] } });
      const { receipt } = await named.agent.pay(server.url);
      expect([receipt?.signedOffer?.trustedBy, receipt?.signedReceipt?.trustedBy]).to.deep.equal(["policy", "policy"]);
    });
  }

  /** by what is wrong */
  const FAULTY: Readonly<Record<string, readonly [JudgedReceipt["fault"], NonNullable<Statements["receipt"]>]>> = {
    "of another payer": ["payer", (facts) => signedReceipt({ ...facts, payer: addressOf("other") })],
    "of another resource": ["resource", (facts) => signedReceipt({ ...facts, resourceUrl: `${facts.resourceUrl}2` })],
    "of another network": ["network", (facts) => signedReceipt({ ...facts, network: "eip155:1" })],
    "of another transaction": ["transaction", (facts) => signedReceipt({ ...facts, transaction: HEX_32("11") })],
    "of an hour ago": ["time", (facts) => signedReceipt({ ...facts, issuedAt: facts.issuedAt - 3_600 })],
    "of the future": ["time", (facts) => signedReceipt({ ...facts, issuedAt: facts.issuedAt + 3_600 })],
    "without a signature of the curve": [
      "signature",
      (facts) => ({ ...signedReceipt(facts), signature: `0x${"00".repeat(65)}` }),
    ],
    "with a high s": [
      "signature",
      (facts) => ({ ...signedReceipt(facts), signature: highS(signedReceipt(facts).signature) }),
    ],
    "with another version": ["malformed", (facts) => ({ ...signedReceipt(facts), payload: { ...facts, version: 2 } })],
    "that is no receipt": ["malformed", () => "paid"],
    "that is null": ["malformed", () => null],
    "without a signature": ["malformed", (facts) => ({ ...signedReceipt(facts), signature: undefined })],
    "without a payload": ["malformed", (facts) => ({ ...signedReceipt(facts), payload: undefined })],
    "without a payer": ["malformed", (facts) => without(signedReceipt(facts), "payer")],
    "without a resource": ["malformed", (facts) => without(signedReceipt(facts), "resourceUrl")],
    "without a network": ["malformed", (facts) => without(signedReceipt(facts), "network")],
    "without a time": ["malformed", (facts) => without(signedReceipt(facts), "issuedAt")],
    "in a JWS whose payload was changed": [
      "signature",
      (facts) => {
        const [head, , tail] = jws(facts, JWS_KEYS["EdDSA and did:key"] as JwsKey).signature.split(".");
        return { format: "jws", signature: `${head}.${base64Of({ ...facts, payer: addressOf("other") })}.${tail}` };
      },
    ],
    "in a JWS without an algorithm": [
      "key",
      (facts) => jws(facts, { ...(JWS_KEYS["EdDSA and did:key"] as JwsKey), alg: "none" }),
    ],
    "in a JWS by a key that only its server shows": [
      "key",
      (facts) => jws(facts, { ...(JWS_KEYS["EdDSA and did:key"] as JwsKey), kid: "did:web:127.0.0.1#1" }),
    ],
  };
  for (const [kind, [fault, receipt]] of Object.entries(FAULTY)) {
    it(`HA30 a receipt ${kind} is named, and refused where one is required`, async () => {
      const server = await serverOf({ ...honest, receipt });
      const { agent, events } = agentOf();
      const answer = await agent.pay(server.url);
      expect([answer.status, answer.receipt?.signedReceipt?.fault]).to.deep.equal([200, fault]);
      expect(events.find(({ type }) => type === "receipt.faulty")).to.include({ fault });

      const error = await rejection(agentOf({ requireReceipt: true }).agent.pay(server.url));
      expect([error.code, error.reason, error.retryable]).to.deep.equal(["ReceiptRejected", fault, false]);
      expect(await (error as ReceiptRejected).response?.json()).to.deep.equal({ weather: "fine" });
      expect(error.details).to.include({ amount: "10000" });
    });
  }

  it("HA30 a receipt of another payment is replayed evidence, also without its transaction", async () => {
    let first: object | undefined;
    const server = await serverOf({
      ...honest,
      receipt: (facts) => {
        first ??= signedReceipt({ ...facts, transaction: "" });
        return first;
      },
    });
    const { agent } = agentOf();
    const faults = [await agent.pay(server.url), await agent.pay(server.url)].map(
      ({ receipt }) => receipt?.signedReceipt?.fault,
    );
    expect(faults).to.deep.equal([undefined, "replayed"]);
  });

  /** The same statement under the same signature, written in another way. */
  const REWRITTEN: Readonly<Record<string, (facts: Required<ReceiptPayload>, isFirst: boolean) => object>> = {
    "in other letters": (facts, isFirst) => {
      const signed = signedReceipt(facts);
      return isFirst ? signed : { ...signed, signature: `0x${signed.signature.slice(2).toUpperCase()}` };
    },
    "with the other half of s": (facts, isFirst) => {
      const key = JWS_KEYS["ES256K and did:jwk"] as JwsKey;
      const negated = (message: Uint8Array) => {
        const { r, s } = secp256k1.Signature.fromCompact(key.sign(message));
        return new secp256k1.Signature(r, secp256k1.CURVE.n - s).toCompactRawBytes();
      };
      return jws(facts, isFirst ? key : { ...key, sign: negated });
    },
    "with other unused bits of its base64": (facts, isFirst) => {
      const signed = jws(facts, JWS_KEYS["EdDSA and did:key"] as JwsKey);
      const last = String.fromCharCode(signed.signature.charCodeAt(signed.signature.length - 1) + 1);
      return isFirst ? signed : { ...signed, signature: signed.signature.slice(0, -1) + last };
    },
    "without its empty transaction": (facts, isFirst) => {
      const signed = signedReceipt(facts);
      const { transaction: _, ...payload } = signed.payload;
      return isFirst ? signed : { ...signed, payload };
    },
  };
  for (const [kind, receiptOf] of Object.entries(REWRITTEN)) {
    it(`HA30 a receipt of another payment is replayed evidence ${kind}, too`, async () => {
      let first: Required<ReceiptPayload> | undefined;
      const server = await serverOf({
        ...honest,
        receipt: (facts) => {
          const isFirst = first === undefined;
          first ??= { ...facts, transaction: "" };
          return receiptOf(first, isFirst);
        },
      });
      const { agent } = agentOf();
      const receipts = [await agent.pay(server.url), await agent.pay(server.url)].map(
        ({ receipt }) => receipt?.signedReceipt,
      );
      expect(receipts.map((receipt) => receipt?.fault)).to.deep.equal([undefined, "replayed"]);
      expect(receipts[1]?.signer).to.equal(receipts[0]?.signer);
    });
  }

  it("HA30 a stranger's receipt is valid for nobody: it is refused where one is required", async () => {
    const server = await serverOf({ ...honest, receipt: (facts) => signedReceipt(facts, "stranger") });
    const { receipt } = await agentOf().agent.pay(server.url);
    expect(receipt?.signedReceipt).to.include({ signer: addressOf("stranger") });
    expect(receipt?.signedReceipt?.trustedBy).to.equal(undefined);
    const error = await rejection(agentOf({ requireReceipt: true }).agent.pay(server.url));
    expect([error.code, error.message]).to.satisfy(
      ([code, message]: string[]) => code === "ReceiptRejected" && message?.includes(addressOf("stranger")),
    );
    // Named for this origin, the same key counts; named for another one, it does not.
    const named = (origin: string) => agentOf({ receiptSigners: { [origin]: [addressOf("stranger")] } }).agent;
    const here = await named(server.url).pay(server.url);
    const elsewhere = await named("https://api.example").pay(server.url);
    expect([here, elsewhere].map(({ receipt: own }) => own?.signedReceipt?.trustedBy)).to.deep.equal([
      "policy",
      undefined,
    ]);
  });

  it("HA30 a missing receipt is reported where one is required, and its payment is not made again", async () => {
    const server = await serverOf({ offers: honest.offers as never });
    const subject = agentOf({ requireReceipt: true });
    const error = await rejection(subject.agent.pay(server.url));
    expect(error).to.be.instanceOf(ReceiptRejected);
    expect((error as ReceiptRejected).response?.status).to.equal(200);
    expect((await subject.agent.payments()).map(({ state }) => state)).to.deep.equal(["served"]);
    expect([transfersSigned(subject), chain.transfers.length]).to.deep.equal([1, 1]);
  });

  it("HA30 a policy file of the command line may require receipts: the answer without one is shown, and is no success", async () => {
    const shell = terminal({ TURNPIKE_FACILITATOR_URL: "http://127.0.0.1:1" });
    const policy = { perPayment: 1_000_000, perDay: 10_000_000, tokens: [TOKEN], requireReceipt: true };
    writeFileSync(path.join(shell.folder, "policy.json"), JSON.stringify(policy));
    const run = async (signs: Statements) =>
      shell.run("pay", (await serverOf(signs)).url, "--policy", "policy.json", "--json");
    expect((await run({})).json().error, "nothing was signed").to.include({ code: "PolicyRefused", reason: "receipt" });
    // As @hono/node-server does in the process that imports it.
    const native = globalThis.Response;
    globalThis.Response = class extends native {};
    const without = await run({ offers: honest.offers as never }).finally(() => {
      globalThis.Response = native;
    });
    expect(without.code).to.equal(1);
    const { paid, body = "null", receiptFault, ...rest } = without.json();
    expect(rest, "no error").to.not.have.property("error");
    expect([paid, JSON.parse(body)]).to.deep.equal([true, { weather: "fine" }]);
    expect(receiptFault).to.contain("Do not pay again");
    expect((await run(honest)).code).to.equal(0);
    expect(chain.transfers).to.have.length(2);
  });

  const OFFERS: Readonly<Record<string, readonly [string | undefined, NonNullable<Statements["offers"]>]>> = {
    "that is missing": [undefined, () => []],
    "of another amount": ["amount", (terms) => [signedOffer({ ...terms, amount: "9999" })]],
    "of the amount in another notation": ["amount", (terms) => [signedOffer({ ...terms, amount: "010000" })]],
    "of another payee": ["payTo", (terms) => [signedOffer({ ...terms, payTo: addressOf("other") })]],
    "of another token": ["token", (terms) => [signedOffer({ ...terms, asset: addressOf("other") })]],
    "of another network": ["network", (terms) => [signedOffer({ ...terms, network: "eip155:1" })]],
    "of another scheme": ["scheme", (terms) => [signedOffer({ ...terms, scheme: "upto" })]],
    "of another resource": ["resource", (terms) => [signedOffer({ ...terms, resourceUrl: "https://api.example/" })]],
    "that has ended": ["time", (terms) => [signedOffer({ ...terms, validUntil: terms.validUntil - 1_000 })]],
    "by a stranger": [undefined, (terms) => [signedOffer(terms, "stranger")]],
    "that is null": [undefined, () => [null]],
    "without a signature": [undefined, (terms) => [{ ...signedOffer(terms), signature: undefined }]],
    "without an amount": [undefined, (terms) => [without(signedOffer(terms), "amount")]],
    "without a payee": [undefined, (terms) => [without(signedOffer(terms), "payTo")]],
    "without a resource": [undefined, (terms) => [without(signedOffer(terms), "resourceUrl")]],
  };
  for (const [kind, [fault, offers]] of Object.entries(OFFERS)) {
    it(`HA30 an offer ${kind} is paid by default and named; with requireReceipt nothing is signed`, async () => {
      const server = await serverOf({ ...honest, offers });
      const answer = await agentOf().agent.pay(server.url);
      expect([answer.status, answer.receipt?.signedOffer?.fault]).to.deep.equal([200, fault]);

      const strict = agentOf({ requireReceipt: true });
      const error = await rejection(strict.agent.pay(server.url));
      expect([error.code, error.reason]).to.deep.equal(["PolicyRefused", "receipt"]);
      expect(strict.signed).to.deep.equal([]);
    });
  }

  it("policy.receiptSigners names origins, and addresses or DIDs of keys", () => {
    for (const [receiptSigners, message] of [
      [{ "https://api.example/path": [addressOf("provider")] }, /name an origin/],
      [{ "https://api.example": ["did:web:api.example"] }, /is no address/],
      [{ "https://api.example": ["0x12"] }, /is no address/],
    ] as const) {
      expect(() => agentOf({ receiptSigners })).to.throw(message);
    }
  });
});
