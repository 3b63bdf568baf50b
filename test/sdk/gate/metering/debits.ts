import { expect } from "chai";
import type { Hex } from "turnpike/protocol";
import { until } from "../../../support/subscriptions";
import { codeOf, meterBeforeEach } from "../support/meter-world";

describe("Metering", () => {
  const worldOf = meterBeforeEach();

  describe("when debits are due", () => {
    it("merges calls until the amount is reached", async () => {
      const world = worldOf();
      await world.start({ limits: { settleAmount: 100n } });
      const idHash = world.chain.subscribe(1);
      for (let i = 0; i < 9; i++) await world.meter.reserve(idHash, 10n, world.chain.facts(idHash));
      await new Promise((resolve) => setImmediate(resolve));
      expect(world.chain.debited).to.have.length(0);
      await world.meter.reserve(idHash, 10n, world.chain.facts(idHash));
      await until(() => world.chain.debited.length === 1);
      expect(world.chain.debited[0]?.amount).to.equal(100n);
    });

    it("merges calls until the count is reached", async () => {
      const world = worldOf();
      await world.start({ limits: { settleCalls: 3 } });
      const idHash = world.chain.subscribe(1);
      for (let i = 0; i < 3; i++) await world.meter.reserve(idHash, 1n, world.chain.facts(idHash));
      await until(() => world.chain.sumDebited() === 3n);
    });

    it("debits what is small once it is old", async () => {
      const world = worldOf();
      await world.start({ limits: { settleAgeMs: 60_000 } });
      const idHash = world.chain.subscribe(1);
      await world.meter.reserve(idHash, 5n, world.chain.facts(idHash));
      world.nowMs += 60_000;
      await until(() => world.chain.sumDebited() === 5n);
    });

    it("A27 debits once before the cycle ends, so that usage falls into the cycle it belongs to", async () => {
      const world = worldOf();
      await world.start({ limits: { cycleMarginSec: 60 } });
      const idHash = world.chain.subscribe(1, { paidThroughSec: 2_000 });
      await world.meter.reserve(idHash, 5n, world.chain.facts(idHash));
      world.nowSec = 1_940;
      await until(() => world.chain.sumDebited() === 5n);
      await world.meter.reserve(idHash, 6n, world.chain.facts(idHash));
      world.chain.renew(idHash);
      await world.meter.flush();
      expect(world.chain.of(idHash).spent).to.equal(6n);
    });

    it("sends many subscriptions in one transaction, each with its own index", async () => {
      const world = worldOf();
      await world.start();
      const ids = Array.from({ length: 50 }, (_, i) => world.chain.subscribe(i + 1, { debits: i }));
      await Promise.all(ids.map((idHash) => world.meter.reserve(idHash, 2n, world.chain.facts(idHash))));
      await world.meter.flush();
      expect(world.chain.prepared).to.have.length(1);
      expect(world.chain.sumDebited()).to.equal(100n);
    });
  });

  describe("when a debit fails", () => {
    it("blocks the subscription for want of funds until a debit succeeds, and loses nothing", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1, { funds: 10n });
      await world.meter.reserve(idHash, 50n, world.chain.facts(idHash));
      await world.meter.flush();
      expect(world.meter.isBlocked(idHash)).to.equal(true);
      expect(await codeOf(world.meter.reserve(idHash, 1n, world.chain.facts(idHash)))).to.equal("InsufficientFunds");
      expect(world.events).to.deep.include({ kind: "blocked", idHash, reason: "InsufficientFunds" });

      world.chain.of(idHash).funds = 1_000n;
      world.nowMs += 2_000;
      await until(() => !world.meter.isBlocked(idHash));
      expect(world.chain.sumDebited()).to.equal(50n);
      expect(await codeOf(world.meter.reserve(idHash, 1n, world.chain.facts(idHash)))).to.equal("fulfilled");
    });

    it("HA5 judges a blocked debit again soon when its subscriber comes back, and no oftener for many", async () => {
      const world = worldOf();
      let judged = 0;
      const prepare: (typeof world.chain.sender)["prepare"] = async (items) => {
        judged++;
        return world.chain.sender.prepare(items);
      };
      await world.start({ sender: { ...world.chain.sender, prepare }, limits: { settleAmount: 1n } });
      const idHash = world.chain.subscribe(1, { funds: 0n });
      await world.meter.reserve(idHash, 100n, world.chain.facts(idHash));
      for (let failures = 1; failures < 5; failures++) {
        await until(() => judged === failures);
        world.nowMs += 3_600_000;
      }
      await until(() => judged === 5);
      // By itself it would be judged again in ten minutes.
      world.chain.of(idHash).funds = 1_000n;
      for (let i = 0; i < 50; i++) world.meter.retryBlocked(idHash);
      world.nowMs += 2_000;
      await until(() => !world.meter.isBlocked(idHash));
      expect(judged).to.equal(6);
      expect(world.chain.sumDebited()).to.equal(100n);
    });

    it("A13 one poisoned item in a batch: the others are debited in that transaction", async () => {
      const world = worldOf();
      await world.start();
      const ids = Array.from({ length: 20 }, (_, i) => world.chain.subscribe(i + 1));
      const poisoned = ids[7] as Hex;
      world.chain.of(poisoned).fault = "TransferFailed";
      world.chain.blindSimulation = true;
      await Promise.all(ids.map((idHash) => world.meter.reserve(idHash, 2n, world.chain.facts(idHash))));
      await world.meter.flush();
      expect(world.chain.sumDebited()).to.equal(38n);
      expect(world.meter.unsettled().unsettled).to.equal(2n);
      expect(world.meter.isBlocked(poisoned), "the token's fault, not the wallet's").to.equal(false);
      world.chain.of(poisoned).fault = undefined;
      await world.meter.flush();
      expect(world.chain.sumDebited()).to.equal(40n);
    });

    it("never sends what the simulation refuses: a retry costs no gas", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1, { fault: "InsufficientApproval" });
      await world.meter.reserve(idHash, 5n, world.chain.facts(idHash));
      for (let i = 0; i < 5; i++) {
        await world.meter.flush();
        world.nowMs += 3_600_000;
      }
      expect(world.chain.submitted).to.have.length(0);
      expect(world.meter.isBlocked(idHash)).to.equal(true);
    });

    it("re-clips when the cap was lowered below what is owed, and shows the rest as lost", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1);
      await world.meter.reserve(idHash, 800n, world.chain.facts(idHash));
      world.chain.of(idHash).cap = 500n;
      await world.meter.flush();
      expect(world.chain.sumDebited()).to.equal(500n);
      expect(world.meter.unsettled().lost).to.equal(300n);
      expect(world.events).to.deep.include({ kind: "lost", idHash, amount: 300n, reason: "clipped" });
    });

    it("debits what is owed from an older cycle within the new cycle's cap", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1, { spent: 900n });
      await world.meter.reserve(idHash, 100n, world.chain.facts(idHash));
      world.chain.renew(idHash);
      expect(world.meter.remaining(idHash, world.chain.facts(idHash)), "what is owed counts in the new cycle").to.equal(
        900n,
      );
      await world.meter.flush();
      expect(world.chain.of(idHash).spent).to.equal(100n);
    });

    it("shows what a cancellation costs, bounded by maxUnsettled", async () => {
      const world = worldOf();
      await world.start({ limits: { maxUnsettled: 300n } });
      const idHash = world.chain.subscribe(1);
      await world.meter.reserve(idHash, 300n, world.chain.facts(idHash));
      world.chain.of(idHash).status = "CANCELLED";
      await world.meter.flush();
      expect(world.meter.unsettled()).to.deep.include({ unsettled: 0n, lost: 300n, settled: 0n });
    });

    it("keeps what a paused subscription owes until it is resumed", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1);
      await world.meter.reserve(idHash, 30n, world.chain.facts(idHash));
      world.chain.of(idHash).status = "PAUSED";
      await world.meter.flush();
      expect(world.meter.unsettled().unsettled).to.equal(30n);
      world.chain.of(idHash).status = "ACTIVE";
      await world.meter.flush();
      expect(world.chain.sumDebited()).to.equal(30n);
    });

    it("follows a rekey to the new idHash, with the same index", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1, { debits: 3 });
      const moved = `0x${"77".repeat(32)}` as Hex;
      await world.meter.reserve(idHash, 30n, world.chain.facts(idHash));
      world.chain.rekey(idHash, moved);
      await world.meter.reserve(moved, 4n, world.chain.facts(moved));
      await world.meter.flush();
      expect(world.chain.sumDebited(moved)).to.equal(34n);
      expect(world.chain.debited.map(({ index }) => index).sort()).to.deep.equal(
        world.chain.debited.map((_, i) => 3 + i),
      );
      expect(world.meter.unsettled().lost).to.equal(0n);
    });

    it("follows a rekey that overtakes a debit under way", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1);
      const moved = `0x${"77".repeat(32)}` as Hex;
      await world.meter.reserve(idHash, 30n, world.chain.facts(idHash));
      world.chain.autoLand = false;
      const flushed = world.meter.flush();
      await until(() => world.chain.mempool.length === 1);
      world.chain.rekey(idHash, moved);
      world.chain.autoLand = true;
      world.chain.land();
      await flushed;
      world.nowMs += 2_000;
      await until(() => world.chain.sumDebited(moved) === 30n);
    });

    it("A28 a debit whose receipt was lost is debited once", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1);
      await world.meter.reserve(idHash, 30n, world.chain.facts(idHash));
      const submit = world.chain.sender.submit;
      world.chain.sender.submit = async (payloads) => {
        await submit(payloads);
        world.chain.isDown = true;
      };
      void world.meter.flush().catch(() => undefined);
      await until(() => world.events.some(({ kind }) => kind === "trouble"));
      world.chain.sender.submit = submit;
      world.chain.isDown = false;
      await world.meter.flush();
      expect(world.chain.sumDebited()).to.equal(30n);
      expect(world.chain.prepared).to.have.length(1);
    });

    it("A28 a transaction whose nonce someone else used is made again under a fresh judgement", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1);
      await world.meter.reserve(idHash, 30n, world.chain.facts(idHash));
      world.chain.autoLand = false;
      const flushed = world.meter.flush();
      await until(() => world.chain.mempool.length === 1);
      world.chain.stealNonce();
      world.chain.autoLand = true;
      await flushed;
      expect(world.chain.sumDebited()).to.equal(30n);
      expect(world.chain.prepared).to.have.length(2);
    });

    it("does not debit again by the word of an endpoint that lags behind the last debit", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1);
      await world.meter.reserve(idHash, 30n, world.chain.facts(idHash));
      await world.meter.flush();
      const subscription = world.chain.of(idHash);
      await world.meter.reserve(idHash, 5n, world.chain.facts(idHash));
      Object.assign(subscription, { debits: 0, spent: 0n });
      const { block } = world.chain;
      world.chain.block = block - 1;
      await world.meter.flush();
      expect(world.chain.debited).to.have.length(1);
      Object.assign(subscription, { debits: 1, spent: 30n });
      world.chain.block = block;
      await world.meter.flush();
      expect(world.chain.debited.map(({ amount, index }) => [amount, index])).to.deep.equal([
        [30n, 0],
        [5n, 1],
      ]);
    });

    it("an outage stops nothing but the debits: calls are charged and debited when it ends", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1);
      world.chain.isDown = true;
      await world.meter.reserve(idHash, 10n, world.chain.facts(idHash));
      expect(await codeOf(world.meter.flush())).to.equal("Unavailable");
      await world.meter.reserve(idHash, 10n, world.chain.facts(idHash));
      world.chain.isDown = false;
      await world.meter.flush();
      expect(world.chain.sumDebited()).to.equal(20n);
    });
  });
});
