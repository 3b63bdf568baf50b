import { expect } from "chai";
import { proofToWire, type SignedPayment } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import type { AuthorizeOutcome } from "../../../facilitator/src/payments";
import { until } from "../../support/facilitator";
import { usePostgresWorld } from "../support/postgres-world";
import { randomOf } from "./support/faults";
import { requireNoncesInOrder } from "./support/kill-audit";

/** CHAOS_SEED has a run again; CHAOS_REORGS says how often the chain changes its mind. */
const SEED = Number(process.env.CHAOS_SEED ?? Date.now() % 1_000_000);
const REORGS = Number(process.env.CHAOS_REORGS ?? 4);
const PAYMENTS_PER_FORK = 4;
/** Not so fast that a busy machine cannot read along. */
const BLOCK_MS = 250;

describe(`payments on a chain that changes its mind (CHAOS_SEED=${SEED})`, function () {
  this.timeout(3_600_000);
  const random = randomOf(SEED);
  const on = usePostgresWorld({ blockMs: BLOCK_MS });
  let core: Core;

  before(async () => {
    // Deeper than any fork that grows here while a slow machine comes to its point.
    core = await on.world.core({ FINALITY_DEPTH: "400", BATCH_ITEMS: "3" });
  });

  const rpc = (method: string, params: unknown[] = []) => on.world.chain.provider.send(method, params);

  it("B8 S1 S7 forks of random depth under load: one transfer each in the end, old proofs called reversed, nothing doubled", async () => {
    const { world } = on;
    const signed: SignedPayment[] = [];
    const asked: Promise<AuthorizeOutcome>[] = [];
    const ask = (one: SignedPayment): void => {
      const known = async () => {
        const outcome = await core.payments.authorize(one);
        // As agents do: nothing was sent, or nothing is known yet, so the same request is repeated.
        const isOpen = outcome.kind === "pending" || (outcome.kind === "refused" && outcome.error.retryable);
        return !isOpen && outcome;
      };
      asked.push(until(known, "its outcome is known", 600_000));
    };
    for (let fork = 0; fork < REORGS; fork++) {
      // Before the fork, so that it does not take their money away.
      const payers = await Promise.all(Array.from({ length: PAYMENTS_PER_FORK }, () => world.payer()));
      const mine = await Promise.all(payers.map((payer) => world.signPayment({ payer, validForSec: 3_000 })));
      signed.push(...mine);
      const snapshot = await rpc("evm_snapshot");
      for (const one of mine.slice(0, 2)) ask(one);
      const blocks = 1 + random(8);
      const height = (await world.chain.provider.getBlockNumber()) + blocks;
      await until(async () => (await world.chain.provider.getBlockNumber()) >= height, "the fork has grown");
      for (const one of mine.slice(2)) ask(one);
      await rpc("evm_setIntervalMining", [0]);
      const top = await world.chain.provider.getBlockNumber();
      await rpc("evm_revert", [snapshot]);
      await rpc("hardhat_setNextBlockBaseFeePerGas", [`0x${(2_000_000_000 + random(1_000_000)).toString(16)}`]);
      // The other fork is as long, or longer; what was in the pool is forgotten with the blocks.
      const length = top + random(3);
      while ((await world.chain.provider.getBlockNumber()) < length) await rpc("evm_mine");
      await rpc("evm_setIntervalMining", [BLOCK_MS]);
    }
    const early = await Promise.all(asked);
    const finals = await Promise.all(
      signed.map((one) =>
        until(
          async () => {
            const outcome = await core.payments.authorize(one);
            return outcome.kind === "settled" && outcome;
          },
          "it is settled on the fork that stays",
          120_000,
        ),
      ),
    );

    const transfers = await world.transfers();
    expect(transfers).to.have.length(signed.length);
    const onChain = new Map(transfers.map(({ from, transaction }) => [from, transaction]));
    for (const { proof } of finals) {
      expect(proof.transaction).to.equal(onChain.get(proof.payer));
      const receipt = await world.chain.provider.getTransactionReceipt(proof.transaction);
      expect(receipt?.blockNumber).to.equal(proof.blockNumber);
      expect((await core.payments.verifyProof(proof)).kind).to.equal("valid");
    }
    for (const outcome of early) {
      if (outcome.kind !== "settled") expect.fail(`it is ${outcome.kind}: ${JSON.stringify(outcome)}`);
      const { proof } = outcome;
      const last = finals.find(({ paymentId }) => paymentId === outcome.paymentId)?.proof;
      const isSame = last && JSON.stringify(proofToWire(last)) === JSON.stringify(proofToWire(proof));
      const verdict = await core.payments.verifyProof(proof);
      // The same transaction in another block proves the same transfer.
      if (isSame || last?.transaction === proof.transaction) expect(verdict.kind).to.equal("valid");
      else expect(verdict).to.include({ kind: "invalid" });
    }
    const events = await core.store.db.selectFrom("events").select(["type", "object_id", "reverted"]).execute();
    const standing = events.filter(({ type, reverted }) => type === "payment.settled" && !reverted);
    expect(standing.map(({ object_id }) => object_id).sort()).to.deep.equal(
      signed.map((one) => world.idOf(one)).sort(),
    );
    const reversed = events.filter(({ type }) => type === "payment.reversed").length;
    const reverted = events.filter(({ type, reverted: isOver }) => type === "payment.settled" && isOver).length;
    expect(reversed, "each reverted settlement was reported").to.equal(reverted);
    await until(async () => {
      const open = await core.store.db.selectFrom("transactions").select("id").where("status", "=", "stored").execute();
      return open.length === 0;
    }, "every transaction has landed");
    await requireNoncesInOrder(world, core);
  });
});
