import { expect } from "chai";
import type { Core } from "../../../facilitator/src/app/core";
import { bytes } from "../../../facilitator/src/db/sql";
import { createBatchBuilder } from "../../../facilitator/src/payments/batch-builder";
import { type FacilitatorWorld, startWorld } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";

/** On both databases: they bind by different statements. */
for (const database of ["embedded", "PostgreSQL"] as const) {
  describe(`payments that come in together (${database})`, function () {
    this.timeout(120_000);
    let postgres: TestPostgres | undefined;
    let world: FacilitatorWorld;
    let core: Core;

    before(async () => {
      postgres = database === "PostgreSQL" ? await startPostgres() : undefined;
      world = await startWorld({ blockMs: 100, ...(postgres && { postgres }) });
      core = await world.core({ RENEWALS: "false" });
    });
    after(async () => {
      await world?.stop();
      await postgres?.stop();
    });

    it("B13 share a transaction that carries only the payers who can pay", async () => {
      const payers = await Promise.all(Array.from({ length: 6 }, () => world.payer(250_000n)));
      const signed = await Promise.all(payers.map((payer) => world.signPayment({ payer })));
      // The first payer's money is there once, and is asked for twice; one is asked for twice by the same signature.
      const [first, second] = payers as [(typeof payers)[0], (typeof payers)[0]];
      const twice = await world.signPayment({ payer: first });
      const again = signed.find(({ authorization: { from } }) => from === second.address);
      const all = [...signed, twice, ...(again ? [again] : [])];
      const outcomes = await Promise.all(all.map((one) => core.payments.authorize(one)));
      const refused = outcomes.flatMap((outcome) => (outcome.kind === "refused" ? [outcome.error.code] : []));
      expect(refused).to.deep.equal(["InsufficientFunds"]);
      expect(outcomes.filter(({ kind }) => kind === "settled")).to.have.length(payers.length + 1);
      const transfers = await world.transfers();
      expect(transfers.map(({ from }) => from).sort()).to.deep.equal(payers.map(({ address }) => address).sort());
      const rows = await core.store.db.selectFrom("payments").select(["attempts", "state"]).execute();
      expect(rows, "each was sent once").to.deep.equal(payers.map(() => ({ attempts: 1, state: "settled" })));
      expect(new Set(transfers.map(({ transaction }) => transaction)).size).to.be.lessThan(payers.length);
    });

    it("leave the place of their transaction to the next with the very block that settles them", async () => {
      const payers = await Promise.all(Array.from({ length: 3 }, () => world.payer(250_000n)));
      const signed = await Promise.all(payers.map((payer) => world.signPayment({ payer })));
      await Promise.all(
        signed.map(async (one) => {
          const outcome = await core.payments.authorize(one);
          if (outcome.kind !== "settled") expect.fail(`it is ${outcome.kind}`);
          const { transaction, blockNumber } = outcome.proof;
          const row = await core.store.db
            .selectFrom("transactions")
            .select(["status", "success", "block_number"])
            .where("hash", "=", transaction)
            .executeTakeFirst();
          expect(row).to.deep.equal({ status: "mined", success: true, block_number: blockNumber });
        }),
      );
    });

    it("are not kept out by a payment whose window ended before it could be sent", async () => {
      const { db } = core.store;
      const stuck = await db.selectFrom("payments").selectAll().limit(1).executeTakeFirstOrThrow();
      const nowSec = Math.floor(core.indexer.clock.nowSec());
      const nothing = { transaction_id: null, tx_hash: null, block_hash: null, block_number: null, log_index: null };
      await db
        .insertInto("payments")
        .values({
          ...stuck,
          ...nothing,
          payment_id: `0x${"ee".repeat(32)}`,
          nonce: bytes(`0x${"ef".repeat(32)}`),
          resource_hash: bytes(stuck.resource_hash),
          signature: bytes(stuck.signature),
          state: "queued",
          accepted_at_ms: 0,
          valid_before: nowSec - 1,
          block_time: null,
          settled_at_ms: null,
        })
        .execute();
      const reports: boolean[] = [];
      const watch = setInterval(() => reports.push(core.payments.health().ok), 1);
      try {
        for (let rounds = 0; rounds < 3; rounds++) {
          const payers = await Promise.all(Array.from({ length: 3 }, () => world.payer(250_000n)));
          const signed = await Promise.all(payers.map((payer) => world.signPayment({ payer })));
          const outcomes = await Promise.all(signed.map((one) => core.payments.authorize(one)));
          expect(outcomes.map(({ kind }) => kind)).to.deep.equal(["settled", "settled", "settled"]);
        }
      } finally {
        clearInterval(watch);
      }
      expect(new Set(reports)).to.deep.equal(new Set([true]));
    });

    it("reserve slots for late payments of a block's time", () => {
      const config = world.config({ BLOCK_TIME_MS: "1000", LANE_IN_FLIGHT: "16" });
      const paceMs = (taken: number | undefined, untilNextBlockMs: number): number =>
        createBatchBuilder({
          config,
          relayer: { ...core.relayer, inPool: () => taken },
          clock: core.indexer.clock,
          untilNextBlockMs: () => untilNextBlockMs,
          isQueueShort: () => true,
          waitForSlot: async () => true,
          onSubmitted: () => undefined,
        }).paceMs();
      expect(paceMs(2, 1_000), "14 places for 875 ms").to.equal(62.5);
      expect(paceMs(10, 725), "6 places for 600 ms").to.equal(100);
      expect(paceMs(15, 925), "nobody waits longer to be bound").to.equal(250);
      expect(paceMs(16, 245), "none is left").to.equal(120);
      expect(paceMs(4, 600), "many are left").to.equal(62.5);
      expect(paceMs(14, -300), "it is overdue").to.equal(62.5);
      expect(paceMs(undefined, 1_000), "another process sends").to.equal(62.5);
    });
  });
}
