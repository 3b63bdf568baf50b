import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { type ClaimStore, fileClaims, memoryClaims, type Provider, type ProviderOptions } from "turnpike/gate";
import { type AcceptEntryWire, encodeJsonHeader, type Hex, keccakText } from "turnpike/protocol";
import {
  addressOf,
  FRAMEWORKS,
  type Framework,
  NOW,
  ONE_TIME,
  quoteOf,
  RESERVING,
  type SettleBody,
  type SmallFacilitator,
  SUPPORTED,
  send,
  signedSettlement,
  startSmallFacilitator,
  type TestServer,
  testProvider,
} from "../../../support/gate";
import { type SubscriptionWorld, startSubscriptionWorld } from "../../../support/subscriptions";
import { providerOn, settleOnChain } from "../support/chain-provider";
import { requiredIn, v1Headers, v2Headers } from "../support/standard";

const RANDOM_TRANSACTION: Hex = keccakText("a transaction that nobody sent");

/** What a Facilitator may return for a payment that it did not settle for this purchase. */
const LIES: Readonly<Record<string, (asked: SettleBody) => object>> = {
  "success, and nothing signed": (asked) => ({
    ...signedSettlement({ ...asked, grant: undefined as never }, RANDOM_TRANSACTION, "x"),
  }),
  "a grant signed by nobody that is pinned": (asked) => signedSettlement(asked, RANDOM_TRANSACTION, "mallory"),
  "a grant in the pinned signer's name that it did not sign": (asked) => {
    const forged = signedSettlement(asked, RANDOM_TRANSACTION, "mallory") as { grant: object };
    return { ...forged, grant: { ...forged.grant, facilitator: addressOf("facilitator") } };
  },
  "the grant of another gate": (asked) =>
    signedSettlement(
      { ...asked, grant: { ...(asked.grant as { resource: string }), id: keccakText("another") } },
      RANDOM_TRANSACTION,
      "facilitator",
    ),
  "the grant of another resource": (asked) =>
    signedSettlement(
      { ...asked, grant: { ...(asked.grant as { id: string }), resource: "https://other.example/" } },
      RANDOM_TRANSACTION,
      "facilitator",
    ),
  "the grant of a smaller amount": (asked) => changed(asked, { value: "1" }),
  "the grant of another payee": (asked) => changed(asked, { to: addressOf("mallory") }),
  "the grant of another payment": (asked) => changed(asked, { nonce: keccakText("another nonce") }),
  "a grant of another transaction than it names": (asked) => ({
    ...signedSettlement(asked, RANDOM_TRANSACTION, "facilitator"),
    transaction: keccakText("another transaction"),
  }),
  "a transaction that is none": (asked) => ({
    ...signedSettlement(asked, RANDOM_TRANSACTION, "facilitator"),
    transaction: "",
  }),
};

function changed(asked: SettleBody, fields: object): object {
  const { payload: signed } = asked.paymentPayload;
  if (!("authorization" in signed)) throw new TypeError("these tests sign EIP-3009 payments");
  const payload = { authorization: { ...signed.authorization, ...fields } };
  return signedSettlement({ ...asked, paymentPayload: { payload } }, RANDOM_TRANSACTION, "facilitator");
}

/** A store in memory forgets what has ended with every thousandth claim. */
async function forgetEnded(claims: ClaimStore, nowSec: number): Promise<void> {
  for (let i = 0; i < 1_000; i++) {
    const act = { act: "claim", owner: "another", nowMs: Date.now(), leaseMs: 1, keepUntilSec: 0 } as const;
    await claims.claim(keccakText(`another payment ${i}`), act, nowSec);
  }
}

for (const framework of Object.keys(FRAMEWORKS) as Framework[]) {
  describe(`grants of standard payments through ${framework}`, () => {
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: TestServer;
    let url: string;

    async function serve(options: ProviderOptions = {}): Promise<void> {
      provider = testProvider(facilitator, options);
      server = await FRAMEWORKS[framework](provider, [{ path: "/report", gate: { pricing: ONE_TIME } }]);
      url = `${server.url}/report`;
    }
    beforeEach(async () => {
      facilitator = await startSmallFacilitator();
    });
    afterEach(async () => {
      await server.stop();
      await provider.close();
      await facilitator.stop();
    });

    const v1 = async () => v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire);
    const settles = () => facilitator.calls.filter(({ path: asked }) => asked === "/settle");
    const grantIds = () => settles().map(({ body }) => (body as SettleBody).grant?.id);

    for (const verify of ["facilitator", "signature"] as const) {
      it(`HA2 serves nothing on a false answer of a Facilitator (${verify}), then serves the payload on a true one`, async () => {
        await serve({ verify });
        for (const [lie, settle] of Object.entries(LIES)) {
          for (const headers of [await v1(), await v2Headers(url)]) {
            const honest = facilitator.settle;
            facilitator.settle = settle;
            const answer = await send(url, { headers });
            expect(answer.status, `${lie}: ${answer.text}`).to.equal(503);
            expect(answer.headers).to.have.property("retry-after");
            facilitator.settle = honest;
            const served = server.served.get("/report") ?? 0;
            expect((await send(url, { headers })).status, lie).to.equal(200);
            expect(server.served.get("/report"), lie).to.equal(served + 1);
          }
        }
      });
    }

    it("HA1 requests its own grant, the same at every attempt and never another gate's", async () => {
      await serve();
      const honest = facilitator.settle;
      const headers = await v1();
      facilitator.settle = () => ({});
      expect((await send(url, { headers })).status, "an answer that cannot be read").to.equal(503);
      facilitator.settle = honest;
      expect((await send(url, { headers })).status).to.equal(200);
      const [first, second] = grantIds();
      expect(first)
        .to.match(/^0x[0-9a-f]{64}$/)
        .and.to.equal(second);
      await server.stop();
      await provider.close();
      await serve({ claims: memoryClaims({ warn: false }) });
      await send(url, { headers });
      expect(grantIds()[2], "a gate with claims of its own").not.to.equal(first);
    });

    it("HA1 refuses a payment that was granted elsewhere without asking the payer to pay again", async () => {
      await serve();
      const refused = {
        success: false,
        errorReason: "payment_already_granted",
        transaction: "",
        network: "local-31337",
      };
      for (const headers of [await v1(), await v2Headers(url)]) {
        facilitator.settlements.push(refused);
        const answer = await send(url, { headers });
        expect(answer.status).to.equal(402);
        expect(answer.json).to.include({ error: "InvalidPaymentProof", reason: "payment_already_granted" });
        expect(answer.json.message).not.to.match(/pay the fresh/);
      }
      expect(server.served.get("/report")).to.equal(undefined);
    });

    it("HA1 HA8 checks a version 2 payload by the gate's own resource and by EIP-3009 alone, before it settles", async () => {
      await serve();
      const [accepted] = requiredIn(await send(url)).accepts;
      const payload = async (change: object) => {
        const { "PAYMENT-SIGNATURE": header } = await v2Headers(url);
        const signed = JSON.parse(Buffer.from(header, "base64").toString());
        const body = { ...signed, ...change };
        return { "PAYMENT-SIGNATURE": encodeJsonHeader(body) };
      };
      const other = await payload({ resource: { url: `${server.url}/other` } });
      expect((await send(url, { headers: other })).json).to.include({ reason: "resource" });
      const permit2 = { ...accepted, extra: { ...accepted?.extra, assetTransferMethod: "permit2" } };
      expect((await send(url, { headers: await payload({ accepted: permit2 }) })).json).to.include({
        reason: "transfer_method",
      });
      expect(settles()).to.have.length(0);
      expect((await send(url, { headers: await payload({ resource: undefined }) })).status, "none named").to.equal(200);
      expect((settles()[0]?.body as SettleBody | undefined)?.grant?.resource).to.equal(url);
    });

    it("HA1 settles nothing through a Facilitator that signs no grants, because the payer could not be served", async () => {
      await serve();
      facilitator.supported = { ...facilitator.supported, paymentGrants: undefined };
      const headers = await v1();
      const answer = await send(url, { headers });
      expect([answer.status, settles().length], answer.text).to.deep.equal([503, 0]);
      facilitator.supported = { ...facilitator.supported, paymentGrants: true };
      expect((await send(url, { headers })).status).to.equal(200);
    });

    it("HA1 asks for no second payment where the Facilitator gave up waiting, and serves the same one once it has settled", async () => {
      await serve();
      const headers = await v1();
      const errorReason = "settle_exact_evm_transaction_confirmation_timed_out";
      facilitator.settlements.push({ success: false, errorReason, transaction: "", network: "local-31337" });
      expect((await send(url, { headers })).status).to.equal(503);
      expect((await send(url, { headers })).status).to.equal(200);
    });

    it("HA1 serves a payment that the Facilitator accepted in time, though its window and its quote have expired", async () => {
      const clock = { sec: NOW, nowSec: () => clock.sec };
      await serve({ clock });
      const late = [await v1(), await v2Headers(url)];
      const pending = { success: false, errorReason: "settlement_pending", transaction: "", network: "local-31337" };
      for (const headers of late) {
        facilitator.settlements.push(pending);
        expect((await send(url, { headers })).status).to.equal(503);
      }
      clock.sec += 1_000;
      const asked = settles().length;
      for (const headers of late) {
        const answer = await send(url, { headers });
        expect(answer.status, "the Facilitator does not know it").to.equal(402);
        expect(answer.json.reason).to.be.oneOf(["window", "memo_expired"]);
      }
      expect(settles(), "and moves nothing for it").to.have.length(asked);
      facilitator.status = "settled";
      for (const headers of late) expect((await send(url, { headers })).status).to.equal(200);
      for (const headers of late) expect((await send(url, { headers })).json.reason).to.equal("already_used");
    });

    it("HA1 serves no payment a second time, when the claim store has forgotten what it bought", async () => {
      const clock = { sec: NOW, nowSec: () => clock.sec };
      const claims = memoryClaims({ warn: false });
      await serve({ clock, claims });
      const paid = [await v1(), await v2Headers(url)];
      for (const headers of paid) expect((await send(url, { headers })).status).to.equal(200);
      facilitator.status = "settled";
      clock.sec += 3 * 86_400;
      await forgetEnded(claims, clock.sec);
      const asked = settles().length;
      for (const headers of paid) {
        const answer = await send(url, { headers });
        expect(answer.status, answer.text).to.equal(402);
        expect(answer.json.reason).to.be.oneOf(["window", "memo_expired"]);
      }
      expect(server.served.get("/report")).to.equal(2);
      expect(settles()).to.have.length(asked);
    });

    it("HA1 grants a payment to any client with its Idempotency-Key, where its first request had one", async () => {
      await serve();
      const paid = { ...(await v1()), "Idempotency-Key": "an-idempotency-key-of-this-test" };
      const { "Idempotency-Key": _key, ...bare } = paid;
      facilitator.settlements.push(
        ...[1, 2].map(() => ({ success: false, errorReason: "settlement_pending", transaction: "", network: "x" })),
      );
      for (const headers of [paid, bare]) expect((await send(url, { headers })).status).to.equal(503);
      expect((await send(url, { headers: paid })).status).to.equal(200);
      const [first, stranger, again] = grantIds();
      expect(stranger, "who has it from calldata").not.to.equal(first);
      expect(again).to.equal(first);
    });

    it("HA1 serves a payment that was first sent without its key, once it is sent with one", async () => {
      await serve();
      const bare = await v1();
      const pending = { success: false, errorReason: "settlement_pending", transaction: "", network: "x" };
      facilitator.settlements.push(pending);
      expect((await send(url, { headers: bare })).status).to.equal(503);
      const [held] = grantIds();
      const honest = facilitator.settle;
      facilitator.settle = (asked) =>
        asked.grant?.id === held ? honest(asked) : { ...pending, errorReason: "payment_already_granted" };
      const keyed = await send(url, { headers: { ...bare, "Idempotency-Key": "a-key-that-comes-later" } });
      expect(keyed.status, keyed.text).to.equal(200);
      facilitator.settle = () => ({ ...pending, errorReason: "payment_already_granted" });
      const other = await send(url, { headers: { ...(await v1()), "Idempotency-Key": "another-key-of-this-test" } });
      expect([other.status, other.json.reason]).to.deep.equal([402, "payment_already_granted"]);
      expect(other.json.message).to.contain("Idempotency-Key");
      facilitator.settle = honest;
    });

    it("HA8 a settlement that is still pending is 503, and the same payload serves afterwards", async () => {
      await serve();
      const pending = {
        success: false,
        errorReason: "settlement_pending",
        transaction: RANDOM_TRANSACTION,
        network: "local-31337",
      };
      const headers = await v1();
      facilitator.settlements.push(pending);
      expect((await send(url, { headers })).status).to.equal(503);
      expect((await send(url, { headers })).status).to.equal(200);
    });
  });
}

describe("grants of claim stores", () => {
  it("HA1 are derived from a secret that is kept in the folder and shared by its processes", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "turnpike-grant-key-"));
    const other = mkdtempSync(path.join(tmpdir(), "turnpike-grant-key-"));
    try {
      const stores = [fileClaims({ folder }), fileClaims({ folder })];
      const keys = await Promise.all(stores.map((store) => store.grantKey()));
      expect(new Set(keys).size).to.equal(1);
      for (const store of stores) await store.close();
      const again = fileClaims({ folder });
      expect(await again.grantKey()).to.equal(keys[0]);
      await again.close();
      const apart = fileClaims({ folder: other });
      expect(await apart.grantKey()).not.to.equal(keys[0]);
      await apart.close();
    } finally {
      for (const each of [folder, other]) rmSync(each, { recursive: true, force: true });
    }
  });
});

describe("standard payments verified on chain", function () {
  this.timeout(120_000);
  let world: SubscriptionWorld;
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let server: TestServer;
  let url: string;

  before(async () => {
    world = await startSubscriptionWorld();
    facilitator = await startSmallFacilitator();
  });
  after(async () => {
    await facilitator.stop();
    await world.stop();
  });
  afterEach(async () => {
    await server.stop();
    await provider.close();
  });

  async function serve(options: ProviderOptions): Promise<void> {
    provider = providerOn(world, facilitator, { verify: "onchain", ...options });
    server = await FRAMEWORKS.express(provider, [{ path: "/report", gate: { pricing: ONE_TIME } }]);
    await provider.ready();
    url = `${server.url}/report`;
  }

  /** Signs a payment as a stock client does, for the chain's own token. */
  async function payload(): Promise<Record<string, string>> {
    const entry = (await quoteOf(url)).accepts[0] as AcceptEntryWire;
    return v1Headers(entry, {}, { world });
  }

  const transfer = (asked: SettleBody, amount?: bigint): Promise<Hex> => settleOnChain(world, asked, amount);

  it("HA2 serves what the token's own logs show, and trusts no Facilitator's statement, not even a signed one", async () => {
    await serve({ settleWaitMs: 0 });
    const lies: ((asked: SettleBody) => Promise<Hex>)[] = [
      async () => RANDOM_TRANSACTION,
      (asked) => transfer(asked, 500_000n),
      async () => ((await world.chain.provider.getBlock("latest"))?.hash ?? "0x") as Hex,
    ];
    for (const lie of lies) {
      const headers = await payload();
      facilitator.settle = async (asked) => signedSettlement(asked, await lie(asked), "facilitator");
      const answer = await send(url, { headers });
      expect(answer.status, answer.text).to.equal(503);
      expect(server.served.get("/report")).to.equal(undefined);
    }
    facilitator.settle = async (asked) => signedSettlement(asked, await transfer(asked), "facilitator");
    const headers = await payload();
    const paid = await send(url, { headers });
    expect(paid.status, paid.text).to.equal(200);
    expect((await send(url, { headers })).json.reason).to.equal("already_used");
  });

  it("HA21 withholds an answer whose settlement the chain gave up, then gives it without a second run", async () => {
    facilitator.supported = RESERVING;
    await serve({ settleWaitMs: 0, replay: {} });
    const headers = await payload();
    const before = await world.chain.provider.send("evm_snapshot", []);
    facilitator.settle = async (asked) => {
      const transaction = await transfer(asked);
      await world.chain.provider.send("evm_revert", [before]);
      return signedSettlement(asked, transaction, "facilitator");
    };
    const answer = await send(url, { headers });
    expect([answer.status, server.served.get("/report")], answer.text).to.deep.equal([503, 1]);
    facilitator.settle = async (asked) => signedSettlement(asked, await transfer(asked), "facilitator");
    const paid = await send(url, { headers });
    expect([paid.status, server.served.get("/report")], paid.text).to.deep.equal([200, 1]);
    facilitator.supported = SUPPORTED;
  });

  it("HA2 waits for the configured depth, and for a node that lags", async () => {
    await serve({ confirmations: 3, settleWaitMs: 60_000 });
    facilitator.settle = async (asked) => {
      const transaction = await transfer(asked);
      void world.chain.advance(1).then(() => world.chain.advance(1));
      return signedSettlement(asked, transaction, "facilitator");
    };
    const answer = await send(url, { headers: await payload() });
    expect(answer.status, answer.text).to.equal(200);
  });

  it("HA2 with another vendor's Facilitator, accepts no authorization that was used before or that moved nothing", async () => {
    const at = { url: facilitator.url, signers: [facilitator.signer], trustUnsigned: true };
    await serve({ settleWaitMs: 0, facilitator: at });
    const unsigned = (asked: SettleBody, transaction: Hex) =>
      signedSettlement({ ...asked, grant: undefined as never }, transaction, "x");
    facilitator.settle = async (asked) => unsigned(asked, RANDOM_TRANSACTION);
    expect((await send(url, { headers: await payload() })).status).to.equal(503);
    let moved: Hex | undefined;
    facilitator.settle = async (asked) => {
      moved ??= await transfer(asked);
      return unsigned(asked, moved);
    };
    const headers = await payload();
    expect((await send(url, { headers })).status).to.equal(200);
    // A lost answer: this gate had it settled, and found it unused before.
    const retried = await payload();
    let lost: Hex | undefined;
    facilitator.settle = async (asked) => {
      lost = await transfer(asked);
      return { success: false, errorReason: "settlement_pending", transaction: lost, network: "local-31337" };
    };
    expect((await send(url, { headers: retried })).status).to.equal(503);
    facilitator.settle = async (asked) => unsigned(asked, lost as Hex);
    expect((await send(url, { headers: retried })).status, "the retry").to.equal(200);
    facilitator.settle = async (asked) => unsigned(asked, moved as Hex);
    // Another gate, or this one after it lost its claims: the transfer exists and has already bought a response.
    await server.stop();
    await provider.close();
    await serve({ settleWaitMs: 0, facilitator: at });
    const answer = await send(url, { headers });
    expect([answer.status, answer.json.reason]).to.deep.equal([402, "authorization_used"]);
  });
});
