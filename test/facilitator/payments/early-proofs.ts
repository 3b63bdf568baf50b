import { expect } from "chai";
import { isProofSignedBy, type SignedPayment } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { Secret } from "../../../facilitator/src/config/setting";
import type { Store, Tx } from "../../../facilitator/src/db/open";
import type { PaymentRow } from "../../../facilitator/src/db/tables/payments";
import { createEarlyProofs } from "../../../facilitator/src/payments/early-proofs";
import { settledFacts } from "../../../facilitator/src/payments/proofs";
import { type DigestSigner, digestSigner } from "../../../facilitator/src/relayer/signer";
import { testKey } from "../../support/chain";
import { type FacilitatorWorld, startWorld } from "../../support/facilitator";

const CHAIN_ID = 84_532;
const ID = `0x${"1d".repeat(32)}`;

describe("proofs that are made while their block is being written", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;
  let signed: SignedPayment;

  before(async () => {
    world = await startWorld();
    core = await world.core({ RENEWALS: "false" });
    signed = await world.signPayment();
  });
  after(() => world?.stop());

  const rowAt = (block: number) =>
    ({
      payment_id: ID,
      state: "settled",
      tx_hash: `0x${block.toString(16).padStart(64, "0")}`,
      block_number: block,
      block_time: 1_700_000_000 + block,
    }) as PaymentRow;
  const factsAt = (block: number) => settledFacts(rowAt(block)) ?? expect.fail("it is settled");

  /** @param fails so many times nobody answers there */
  function countedSigner(fails = 0): DigestSigner & { readonly signatures: () => number } {
    const signer = digestSigner(new Secret(testKey("early proofs") as `0x${string}`));
    let asked = 0;
    const signDigest: DigestSigner["signDigest"] = async (digest) => {
      if (asked++ < fails) throw new Error("nobody answers");
      return signer.signDigest(digest);
    };
    return { ...signer, signDigest, signatures: () => asked };
  }

  it("the proof is signed once, early, and handed out for the row as it was foreseen", async () => {
    const signer = countedSigner();
    const proofs = createEarlyProofs({ chainId: CHAIN_ID, signer: () => signer });
    const early = proofs.register(ID, signed);
    await proofs.prepare([rowAt(7)]);
    expect(signer.signatures()).to.equal(1);
    const proof = await early.issue(factsAt(7));
    expect(signer.signatures()).to.equal(1);
    expect(proof.blockNumber).to.equal(7);
    expect(isProofSignedBy(proof, CHAIN_ID, signer.address)).to.equal(true);
  });

  it("S4 a row that is written with other facts than were foreseen is proved by its own", async () => {
    const signer = countedSigner();
    const proofs = createEarlyProofs({ chainId: CHAIN_ID, signer: () => signer });
    const early = proofs.register(ID, signed);
    await proofs.prepare([rowAt(7)]);
    const others = [
      factsAt(8),
      { ...factsAt(7), transaction: factsAt(8).transaction },
      { ...factsAt(7), settledAt: factsAt(7).settledAt + 1 },
    ];
    for (const facts of others) {
      const proof = await early.issue(facts);
      expect(proof).to.include(facts);
      expect(isProofSignedBy(proof, CHAIN_ID, signer.address)).to.equal(true);
    }
  });

  it("each who waits for a payment is given a proof of what they themselves have asked for", async () => {
    const proofs = createEarlyProofs({ chainId: CHAIN_ID, signer: () => countedSigner() });
    const other = { ...signed, resource: `${signed.resource}&other` };
    const [one, two] = [proofs.register(ID, signed), proofs.register(ID, other)];
    await proofs.prepare([rowAt(7)]);
    expect((await one.issue(factsAt(7))).resource).to.equal(signed.resource);
    expect((await two.issue(factsAt(7))).resource).to.equal(other.resource);
  });

  it("a key that was away while it was prepared is asked again when the proof is wanted", async () => {
    const signer = countedSigner(1);
    const proofs = createEarlyProofs({ chainId: CHAIN_ID, signer: () => signer });
    const early = proofs.register(ID, signed);
    await proofs.prepare([rowAt(7)]);
    expect((await early.issue(factsAt(7))).blockNumber).to.equal(7);
    expect(signer.signatures()).to.equal(2);
  });

  it("nothing is signed for a payment that nobody waits for, or that is not settled", async () => {
    const signer = countedSigner();
    const proofs = createEarlyProofs({ chainId: CHAIN_ID, signer: () => signer });
    proofs.register(ID, signed).end();
    await proofs.prepare([rowAt(7)]);
    proofs.register(ID, signed);
    await proofs.prepare([{ ...rowAt(7), state: "failed" }]);
    expect(signer.signatures()).to.equal(0);
  });

  it("S4 a block that is not committed answers nobody, and the payer is answered when it is", async () => {
    let isAnswered = false;
    const lost: { readonly wasAnswered: boolean }[] = [];
    const paid = await world.signPayment();
    const paymentId = world.idOf(paid);
    const restore = beforeCommit(core.store, async (tx) => {
      const row = await tx
        .selectFrom("payments")
        .select("state")
        .where("payment_id", "=", paymentId)
        .executeTakeFirst();
      if (row?.state !== "settled" || lost.length > 1) return;
      // Whatever was prepared has had its time.
      await new Promise((resolve) => setImmediate(resolve));
      lost.push({ wasAnswered: isAnswered });
      throw new Error("the commit is lost");
    });
    try {
      const outcome = await core.payments.authorize(paid, { waitMs: 30_000 });
      isAnswered = true;
      expect(lost).to.deep.equal([{ wasAnswered: false }, { wasAnswered: false }]);
      if (outcome.kind !== "settled") expect.fail(outcome.kind);
      expect(await core.payments.verifyProof(outcome.proof)).to.deep.equal({ kind: "valid", paymentId });
    } finally {
      restore();
    }
  });
});

/** @returns what ends it */
function beforeCommit(store: Store, act: (tx: Tx) => Promise<void>): () => void {
  const open = store as { transaction: Store["transaction"] };
  const { transaction } = store;
  open.transaction = (work) =>
    transaction(async (tx) => {
      const result = await work(tx);
      await act(tx);
      return result;
    });
  return () => {
    open.transaction = transaction;
  };
}
