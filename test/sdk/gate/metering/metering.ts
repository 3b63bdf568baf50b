import { expect } from "chai";
import fc from "fast-check";
import { Unavailable } from "turnpike/protocol";
import { MeteredChain } from "../../../support/metered-chain";
import { until } from "../../../support/subscriptions";
import { codeOf, meterBeforeEach } from "../support/meter-world";

describe("Metering", () => {
  const worldOf = meterBeforeEach();

  describe("reserve", () => {
    it("charges the cost and returns what remains of the cap", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1);
      expect(await world.meter.reserve(idHash, 300n, world.chain.facts(idHash))).to.deep.equal({
        charged: 300n,
        remaining: 700n,
        clipped: false,
      });
      expect(world.meter.remaining(idHash, world.chain.facts(idHash))).to.equal(700n);
    });

    it("clips a cost above what remains and serves it, then refuses with AllowanceExhausted", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1);
      expect(await world.meter.reserve(idHash, 1_001n, world.chain.facts(idHash))).to.deep.equal({
        charged: 1_000n,
        remaining: 0n,
        clipped: true,
      });
      expect(await codeOf(world.meter.reserve(idHash, 1n, world.chain.facts(idHash)))).to.equal("AllowanceExhausted");
    });

    it("HA5 reads the newest facts before it clips or refuses, and reads none where enough remains", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1);
      const old = world.chain.facts(idHash);
      let reads = 0;
      const newest = async () => {
        reads++;
        return world.chain.facts(idHash);
      };
      await world.meter.reserve(idHash, 1_000n, old, newest);
      expect(reads).to.equal(0);
      expect(await codeOf(world.meter.reserve(idHash, 1n, old, newest)), "nobody raised it").to.equal(
        "AllowanceExhausted",
      );
      world.chain.of(idHash).cap = 5_000n;
      world.chain.block++;
      expect(await world.meter.reserve(idHash, 3_000n, old, newest)).to.deep.equal({
        charged: 3_000n,
        remaining: 1_000n,
        clipped: false,
      });
      expect(await world.meter.reserve(idHash, 3_000n, old, newest)).to.include({ charged: 1_000n, clipped: true });
      expect(reads).to.equal(3);
      await world.meter.flush();
      expect(world.chain.sumDebited()).to.equal(5_000n);
    });

    it("HA5 charges nothing on insufficient facts when newer ones cannot be read", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1);
      const newest = async () => {
        throw new Unavailable("down");
      };
      expect(await codeOf(world.meter.reserve(idHash, 1_001n, world.chain.facts(idHash), newest))).to.equal(
        "Unavailable",
      );
      expect(world.meter.unsettled().unsettled).to.equal(0n);
    });

    it("HA5 writes nothing off by an endpoint that is behind the block of the charge", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1);
      const raised = { ...world.chain.facts(idHash), cap: 5_000n, blockNumber: world.chain.block + 1 };
      await world.meter.reserve(idHash, 3_000n, raised);
      // Resolves with nothing debited: only the old view is available.
      await world.meter.flush();
      expect(world.meter.unsettled()).to.include({ unsettled: 3_000n, lost: 0n });
      world.chain.of(idHash).cap = 5_000n;
      world.chain.block++;
      await world.meter.flush();
      expect(world.meter.unsettled()).to.include({ settled: 3_000n, unsettled: 0n, lost: 0n });
    });

    it("charges nothing for a cost of 0, also when nothing remains", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1, { cap: 0n });
      expect((await world.meter.reserve(idHash, 0n, world.chain.facts(idHash))).charged).to.equal(0n);
      expect(await codeOf(world.meter.reserve(idHash, -1n, world.chain.facts(idHash)))).to.equal("ConfigError");
    });

    it("C13 parallel calls near the cap never exceed it, and the last one is clipped", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1, { spent: 50n });
      const calls = Array.from({ length: 200 }, () => world.meter.reserve(idHash, 7n, world.chain.facts(idHash)));
      const answers = await Promise.allSettled(calls);
      const charges = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
      expect(charges.reduce((sum, { charged }) => sum + charged, 0n)).to.equal(950n);
      expect(charges.filter(({ clipped }) => clipped)).to.have.length(1);
      await world.meter.flush();
      expect(world.chain.sumDebited()).to.equal(950n);
    });

    it("C13 charges of any size, with debits confirmed among them and facts of any age, never exceed the cap", async () => {
      const world = worldOf();
      await fc.assert(
        fc.asyncProperty(
          fc.bigInt(1n, 5_000n),
          fc.array(fc.record({ amount: fc.bigInt(1n, 900n), act: fc.constantFrom("call", "old", "settle", "land") }), {
            maxLength: 40,
          }),
          async (cap, steps) => {
            world.chain = new MeteredChain();
            await world.start();
            const idHash = world.chain.subscribe(1, { cap });
            world.chain.autoLand = false;
            const old = world.chain.facts(idHash);
            const calls: Promise<unknown>[] = [];
            let charged = 0n;
            for (const { amount, act } of steps) {
              if (act === "land") world.chain.land();
              else if (act === "settle") calls.push(world.meter.flush());
              else {
                const facts = act === "old" ? old : world.chain.facts(idHash);
                calls.push(
                  world.meter.reserve(idHash, amount, facts).then(
                    (charge) => {
                      charged += charge.charged;
                    },
                    () => undefined,
                  ),
                );
              }
              if (amount % 3n === 0n) await new Promise((resolve) => setImmediate(resolve));
            }
            world.chain.autoLand = true;
            world.chain.land();
            await Promise.all(calls);
            await world.meter.flush();
            expect(charged <= cap, `charged ${charged} of ${cap}`).to.equal(true);
            expect(world.chain.sumDebited()).to.equal(charged);
            expect(world.meter.unsettled().lost).to.equal(0n);
            await world.meter.stop();
          },
        ),
        { numRuns: 60 },
      );
    });

    it("counts a confirmed debit exactly once while the gate's view is a block behind", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1);
      const before = world.chain.facts(idHash);
      await world.meter.reserve(idHash, 600n, before);
      world.chain.autoLand = false;
      const flushed = world.meter.flush();
      await until(() => world.chain.mempool.length === 1);
      expect(world.meter.remaining(idHash, before)).to.equal(400n);
      world.chain.land();
      expect(
        world.meter.remaining(idHash, world.chain.facts(idHash)),
        "seen on world.chain before the receipt",
      ).to.equal(400n);
      await flushed;
      expect(world.meter.remaining(idHash, before), "receipt before the gate's view").to.equal(400n);
      expect(world.meter.remaining(idHash, world.chain.facts(idHash))).to.equal(400n);
    });

    it("flushes no longer than 30 seconds while nothing becomes final, and debits it later, once", async () => {
      const world = worldOf();
      await world.start();
      const idHash = world.chain.subscribe(1);
      world.chain.autoLand = false;
      await world.meter.reserve(idHash, 10n, world.chain.facts(idHash));
      const flushed = codeOf(world.meter.flush());
      await until(() => world.chain.mempool.length === 1);
      world.nowMs += 30_001;
      expect(await flushed).to.equal("Unavailable");
      world.chain.autoLand = true;
      world.chain.land();
      await world.meter.flush();
      expect(world.chain.sumDebited()).to.equal(10n);
    });

    it("limits what is owed to maxUnsettled: further calls wait for debits, then continue", async () => {
      const world = worldOf();
      await world.start({ limits: { maxUnsettled: 100n, settleAmount: 1_000n } });
      const idHash = world.chain.subscribe(1);
      world.chain.autoLand = false;
      const calls = Array.from({ length: 25 }, () => world.meter.reserve(idHash, 10n, world.chain.facts(idHash)));
      await until(() => world.chain.mempool.length === 1);
      expect(world.meter.unsettled().unsettled).to.equal(100n);
      expect(world.meter.isSaturated(idHash)).to.equal(true);
      world.chain.autoLand = true;
      world.chain.land();
      await Promise.all(calls);
      await world.meter.flush();
      expect(world.chain.sumDebited()).to.equal(250n);
      expect(world.chain.debited.map(({ amount }) => amount).every((amount) => amount <= 100n)).to.equal(true);
    });

    it("throws Unavailable, never 402, when debits do not become final in time", async () => {
      const world = worldOf();
      await world.start({ limits: { maxUnsettled: 100n, waitMs: 20 }, monotonicMs: () => performance.now() });
      const idHash = world.chain.subscribe(1);
      world.chain.isDown = true;
      await world.meter.reserve(idHash, 100n, world.chain.facts(idHash));
      expect(await codeOf(world.meter.reserve(idHash, 1n, world.chain.facts(idHash)))).to.equal("Unavailable");
    });

    it("serves a single call that alone costs more than maxUnsettled", async () => {
      const world = worldOf();
      await world.start({ limits: { maxUnsettled: 100n } });
      const idHash = world.chain.subscribe(1);
      expect((await world.meter.reserve(idHash, 500n, world.chain.facts(idHash))).charged).to.equal(500n);
    });
  });
});
