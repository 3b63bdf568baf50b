import { appendFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { type Ledger, type LedgerRecord, memoryLedger } from "turnpike/agent";
import { fileLedger } from "turnpike/agent/file-ledger";
import { type Hex, keccakText, type PaymentProof, signProof } from "turnpike/protocol";
import { startChainRpc } from "./support/chain-rpc";
import { rejection } from "./support/rejection";
import {
  type AgentUnderTest,
  type AuthorizeStep,
  addressOf,
  agentFor,
  CHAIN_ID,
  type FacilitatorStandIn,
  marketBeforeEach,
  NOW_SEC,
  type ProviderStandIn,
  startFacilitator,
  startProvider,
  testKey,
  transfersSigned,
} from "./support/world";

const impatient = { settleMs: 2_000, presentations: 2 };
const times = (count: number, step: AuthorizeStep): AuthorizeStep[] => Array.from({ length: count }, () => step);

const otherDigit = (hex: string): Hex => `${hex.slice(0, 20)}${hex[20] === "a" ? "b" : "a"}${hex.slice(21)}` as Hex;
const stranger = addressOf("stranger");
/** What a Facilitator may get wrong in a proof whose terms are right. */
const SPOILED: Readonly<Record<string, (proof: PaymentProof) => PaymentProof>> = {
  "another signature": (proof) => ({ ...proof, signature: otherDigit(proof.signature) }),
  "a facilitator that did not sign": (proof) => ({ ...proof, facilitator: stranger }),
  "a foreign signer": (proof) => signProof({ ...proof, facilitator: stranger }, CHAIN_ID, testKey("stranger")),
  "a fact changed after signing": (proof) => ({ ...proof, blockNumber: proof.blockNumber + 1 }),
};
/** Signed as they should be, and wrong all the same: only the provider can see it. */
const LIES: Readonly<Record<string, Partial<PaymentProof>>> = {
  "an expiry that has passed": { expiresAt: NOW_SEC - 1 },
  "a settlement after the quote": { settledAt: NOW_SEC + 900 },
  "a transaction that is none": { transaction: keccakText("none") },
};

/** A ledger whose records can be read and changed, as another program could. */
function openLedger(): Ledger & { records: LedgerRecord[] } {
  const records: LedgerRecord[] = [];
  return {
    records,
    load: async () => [...records],
    append: async (record) => void records.push(structuredClone(record)),
    close: async () => {},
  };
}

describe("HA7 an agent that gets a bad proof", () => {
  const market = marketBeforeEach();

  const paidOnce = (subject: AgentUnderTest) =>
    expect([transfersSigned(subject), market.chain.transfers.length], "signed, moved").to.deep.equal([1, 1]);
  const presented = (provider: ProviderStandIn = market.provider) =>
    provider.seen.filter(({ headers }) => headers["x-payment"] !== undefined);

  for (const [name, spoil] of Object.entries(SPOILED)) {
    it(`HA7 ${name}: stores nothing of it, and is served by the next sound proof in the same call`, async () => {
      market.facilitator.announced.push(addressOf("facilitator"));
      market.facilitator.steps.push(...times(2, { spoil }));
      const subject = agentFor(market.facilitator.url);
      expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
      expect(presented()).to.have.length(1);
      paidOnce(subject);
    });

    it(`HA7 ${name}: held while it lasts, served once the Facilitator is honest again`, async () => {
      market.facilitator.announced.push(addressOf("facilitator"));
      market.facilitator.steps.push(...times(100, { spoil }));
      const ledger = openLedger();
      const subject = agentFor(market.facilitator.url, { limits: impatient, ledger });
      for (let call = 0; call < 2; call++) {
        const error = await rejection(subject.agent.pay(market.provider.url));
        expect(error.code).to.equal("PaymentPending");
        expect(error.message).to.match(/proof/);
      }
      expect(presented()).to.have.length(0);
      expect(ledger.records.some((record) => record.type === "payment" && record.proof !== undefined)).to.equal(false);

      market.facilitator.steps.length = 0;
      const response = await subject.agent.pay(market.provider.url);
      expect([response.status, response.receipt?.resumed]).to.deep.equal([200, true]);
      paidOnce(subject);
    });

    it(`HA7 ${name}: another configured Facilitator vouches for the same payment`, async () => {
      market.facilitator.announced.push(addressOf("facilitator"));
      market.facilitator.steps.push(...times(100, { spoil }));
      const honest = await startFacilitator(market.chain, "honest");
      const signers = [addressOf("facilitator"), addressOf("honest")];
      const provider = await startProvider(market.chain, market.facilitator.url, { signers });
      const subject = agentFor(market.facilitator.url, { facilitators: [market.facilitator.url, honest.url] });
      expect((await subject.agent.pay(provider.url)).status).to.equal(200);
      expect([...honest.signatures]).to.deep.equal([...market.facilitator.signatures]);
      paidOnce(subject);
    });
  }

  for (const [name, forge] of Object.entries(LIES)) {
    it(`HA7 ${name}: rejected by the provider, then served with a fresh proof`, async () => {
      market.facilitator.steps.push({ forge });
      const subject = agentFor(market.facilitator.url);
      expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
      paidOnce(subject);
    });

    it(`HA7 ${name}: kept over calls, served once the Facilitator is honest again`, async () => {
      market.facilitator.steps.push(...times(40, { forge }));
      const subject = agentFor(market.facilitator.url, { limits: impatient });
      for (let call = 0; call < 2; call++) {
        expect((await rejection(subject.agent.pay(market.provider.url))).code).to.equal("InvalidPaymentProof");
      }
      market.facilitator.steps.length = 0;
      expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
      paidOnce(subject);
    });

    it(`HA7 ${name}: another configured Facilitator vouches for the same payment`, async () => {
      market.facilitator.steps.push(...times(40, { forge }));
      const honest = await startFacilitator(market.chain, "honest");
      const signers = [addressOf("facilitator"), addressOf("honest")];
      const provider = await startProvider(market.chain, market.facilitator.url, { signers });
      const subject = agentFor(market.facilitator.url, { facilitators: [market.facilitator.url, honest.url] });
      expect((await subject.agent.pay(provider.url)).status).to.equal(200);
      paidOnce(subject);
    });
  }

  it("HA7 a signer that the provider dropped: the proof of its successor is fetched for the stored one", async () => {
    const ledger = openLedger();
    market.provider.steps.push("drop", "drop");
    const subject = agentFor(market.facilitator.url, { limits: impatient, ledger });
    expect((await rejection(subject.agent.pay(market.provider.url))).code).to.equal("Unavailable");

    // The Facilitator signs with another key from now on, and the provider has pinned that one alone.
    const next = signProofsAs("successor");
    market.facilitator.steps.push(...times(4, { spoil: next }));
    market.signers.splice(0, 1, addressOf("successor"));
    expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
    paidOnce(subject);
  });

  it("HA7 a signer that the provider calls retired: its proof is presented once, and the successor's is served", async () => {
    market.signers.push(addressOf("successor"));
    market.facilitator.steps.push("settle", { spoil: signProofsAs("successor") });
    market.provider.steps.push("signer_retired");
    const subject = agentFor(market.facilitator.url);
    expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
    const proofs = presented().map(({ headers }) => headers["x-payment"]);
    expect([proofs.length, new Set(proofs).size], "presented, different").to.deep.equal([2, 2]);
    paidOnce(subject);
  });

  it("HA7 a signer that is announced after it signs is accepted: the list is read again", async () => {
    market.facilitator.announced.push(addressOf("facilitator"));
    const subject = agentFor(market.facilitator.url);
    expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);

    market.facilitator.announced.unshift(addressOf("successor"));
    market.signers.push(addressOf("successor"));
    market.facilitator.steps.push({ spoil: signProofsAs("successor") });
    expect((await subject.agent.pay(`${market.provider.url}/next`)).status).to.equal(200);
    expect(market.facilitator.seen.filter(({ url }) => url === "/authorize")).to.have.length(2);
  });

  it("HA7 a pinned signer counts, whatever the Facilitator announces", async () => {
    market.facilitator.announced.push(stranger, addressOf("facilitator"));
    market.facilitator.steps.push({ spoil: SPOILED["a foreign signer"] as (proof: PaymentProof) => PaymentProof });
    const pinned = { url: market.facilitator.url, signers: [addressOf("facilitator")] };
    const subject = agentFor(market.facilitator.url, { facilitators: [pinned] });
    expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
    expect(presented()).to.have.length(1);
    expect(() => agentFor("x", { facilitators: [{ ...pinned, signers: ["0x12"] }] })).to.throw(/facilitators.*signers/);
    expect(() => agentFor("x", { facilitators: [{ ...pinned, signers: [] }] })).to.throw(/facilitators.*signers/);
  });

  it("HA7 a Facilitator that announces no signers is judged by the signature alone", async () => {
    const subject = agentFor(market.facilitator.url);
    expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
  });

  it("HA7 a lying Facilitator that denies what the chain shows: another one vouches for it", async () => {
    const rpc = await startChainRpc(market.chain);
    const honest = await startFacilitator(market.chain, "honest");
    const signers = [addressOf("facilitator"), addressOf("honest")];
    const provider = await startProvider(market.chain, market.facilitator.url, { signers });
    market.facilitator.steps.push(...times(40, { settleThenRefuse: "PaymentNotAllowed" }));
    const facilitators = [market.facilitator.url, honest.url];
    const subject = agentFor(market.facilitator.url, { facilitators, rpc: rpc.url });
    expect((await subject.agent.pay(provider.url)).status).to.equal(200);
    paidOnce(subject);
  });

  it("HA7 a refusal of what the chain does not show is posted to no other Facilitator", async () => {
    const rpc = await startChainRpc(market.chain);
    const honest = await startFacilitator(market.chain, "honest");
    market.facilitator.steps.push(...times(40, { refuse: "PaymentNotAllowed" }));
    const facilitators = [market.facilitator.url, honest.url];
    const subject = agentFor(market.facilitator.url, { facilitators, rpc: rpc.url });
    expect((await rejection(subject.agent.pay(market.provider.url))).code).to.equal("PaymentNotAllowed");
    expect(honest.signatures.size).to.equal(0);
    expect(market.chain.transfers).to.have.length(0);
  });

  it("HA7 after bad proofs no denial ends the payment, also after its window: never a second signature", async () => {
    market.facilitator.steps.push(...times(40, { spoil: SPOILED["another signature"] as never }));
    const subject = agentFor(market.facilitator.url, { limits: impatient });
    await rejection(subject.agent.pay(market.provider.url));
    market.chain.nowSec += 3_600;
    market.facilitator.steps.length = 0;
    market.facilitator.hidesPayments = true;
    market.facilitator.steps.push(...times(40, { refuse: "PaymentExpired" }));
    expect((await rejection(subject.agent.pay(market.provider.url))).code).to.equal("PaymentExpired");
    market.facilitator.steps.length = 0;
    market.facilitator.steps.push({ refuse: "PaymentExpired" });
    await rejection(subject.agent.pay(market.provider.url));
    expect(transfersSigned(subject)).to.equal(1);
    market.facilitator.steps.length = 0;
    market.facilitator.settledAtSec = NOW_SEC;
    expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
    paidOnce(subject);
  });

  it("HA7 a payment whose Facilitator is configured no more is vouched for by another, once it has settled", async () => {
    const ledger = memoryLedger();
    market.facilitator.steps.push(...times(40, { spoil: SPOILED["another signature"] as never }));
    const first = agentFor(market.facilitator.url, { limits: impatient, ledger });
    expect((await rejection(first.agent.pay(market.provider.url))).code).to.equal("PaymentPending");
    const honest = await startFacilitator(market.chain, "honest");
    market.signers.push(addressOf("honest"));
    const second = agentFor(honest.url, { ledger });
    expect((await second.agent.pay(market.provider.url)).status).to.equal(200);
    expect([transfersSigned(first), transfersSigned(second), market.chain.transfers.length]).to.deep.equal([1, 0, 1]);
  });

  it("HA7 a proof that stays reversed: another Facilitator vouches for the same payment", async () => {
    const honest = await startFacilitator(market.chain, "honest");
    market.signers.push(addressOf("honest"));
    market.provider.steps.push("reversed", "reversed");
    const facilitators = [market.facilitator.url, honest.url];
    const subject = agentFor(market.facilitator.url, { facilitators });
    expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
    expect(honest.signatures.size).to.equal(1);
    paidOnce(subject);
  });

  it("HA7 a Facilitator that stays silent on what the chain shows: another one vouches for it", async () => {
    const rpc = await startChainRpc(market.chain);
    const honest = await startFacilitator(market.chain, "honest");
    market.signers.push(addressOf("honest"));
    market.facilitator.steps.push(...times(100, "settle_then_drop"));
    const facilitators = [market.facilitator.url, honest.url];
    const subject = agentFor(market.facilitator.url, { facilitators, rpc: rpc.url, limits: impatient });
    expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
    paidOnce(subject);
  });

  it("HA7 settleHeld replaces a stored proof that is not sound", async () => {
    const ledger = openLedger();
    market.provider.steps.push("drop", "drop");
    const first = agentFor(market.facilitator.url, { limits: impatient, ledger });
    await rejection(first.agent.pay(market.provider.url));
    const corrupted = openLedger();
    corrupted.records.push(...ledger.records.map(withProof((proof) => ({ ...proof, amount: "1" }))));
    const subject = agentFor(market.facilitator.url, { ledger: corrupted });
    const [held] = await subject.agent.settleHeld();
    expect(held).to.include({ state: "settled", transaction: keccakText(held?.paymentId ?? "") });
    expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
    expect(transfersSigned(subject)).to.equal(0);
  });

  for (const [name, change] of Object.entries({
    "a signature": (proof: Wire) => ({ ...proof, signature: otherDigit(proof.signature) }),
    "an amount": (proof: Wire) => ({ ...proof, amount: "1" }),
    "a field that is missing": ({ payer: _gone, ...proof }: Wire) => proof as Wire,
    "no proof at all": () => "gone" as unknown as Wire,
  })) {
    it(`HA7 a ledger whose stored proof is damaged (${name}): fetched again, in memory and in a file`, async () => {
      const folder = await mkdtemp(join(tmpdir(), "turnpike-proof-"));
      const file = join(folder, "agent.jsonl");
      try {
        const quick = { staleMs: 2_000 };
        market.provider.steps.push("drop", "drop");
        const first = agentFor(market.facilitator.url, { limits: impatient, ledger: fileLedger(file, quick) });
        await rejection(first.agent.pay(market.provider.url));
        await first.agent.close();
        const lines = (await readFile(file, "utf8")).trimEnd().split("\n");
        const records = lines.map((line) => withProof(change)(JSON.parse(line) as LedgerRecord));
        await writeFile(file, records.map((record) => `${JSON.stringify(record)}\n`).join(""));
        await appendFile(file, "");

        const open = openLedger();
        open.records.push(...records);
        const inMemory = agentFor(market.facilitator.url, { ledger: open });
        expect(await inMemory.agent.payments()).to.have.length(1);
        const inFile = agentFor(market.facilitator.url, { ledger: fileLedger(file, quick) });
        expect((await inFile.agent.pay(market.provider.url)).status).to.equal(200);
        await inFile.agent.close();
        expect((await rejection(inMemory.agent.pay(market.provider.url))).reason).to.equal("already_used");
        expect([transfersSigned(inFile), transfersSigned(inMemory), market.chain.transfers.length]).to.deep.equal([
          0, 0, 1,
        ]);
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    });
  }

  it("HA7 a provider that rejects every proof gets each Facilitator asked once per call, and no second payment", async () => {
    const honest = await startFacilitator(market.chain, "honest");
    market.provider.steps.push(...Array.from({ length: 60 }, () => "402" as const));
    const facilitators = [market.facilitator.url, honest.url];
    const subject = agentFor(market.facilitator.url, { facilitators, limits: impatient });
    expect((await rejection(subject.agent.pay(market.provider.url))).code).to.equal("InvalidPaymentProof");
    const asked = (server: FacilitatorStandIn) => server.seen.filter(({ url }) => url === "/authorize").length;
    expect([asked(market.facilitator), asked(honest)]).to.deep.equal([2, 1]);
    paidOnce(subject);
  });

  it("HA7 what was served once is served again by its key, with a fresh proof where the stored one counts no more", async () => {
    const subject = agentFor(market.facilitator.url);
    const idempotencyKey = "invoice 1";
    expect((await subject.agent.pay(market.provider.url, { idempotencyKey })).status).to.equal(200);
    market.provider.replays = true;
    market.signers.splice(0, 1, addressOf("successor"));
    market.facilitator.steps.push(...times(4, { spoil: signProofsAs("successor") }));
    expect((await subject.agent.pay(market.provider.url, { idempotencyKey })).status).to.equal(200);
    paidOnce(subject);
  });
});

type Wire = NonNullable<Extract<LedgerRecord, { type: "payment" }>["proof"]>;

const withProof =
  (change: (proof: Wire) => Wire) =>
  (record: LedgerRecord): LedgerRecord =>
    record.type === "payment" && record.proof ? { ...record, proof: change(record.proof) } : record;

const signProofsAs =
  (role: string) =>
  (proof: PaymentProof): PaymentProof =>
    signProof({ ...proof, facilitator: addressOf(role) }, CHAIN_ID, testKey(role));
