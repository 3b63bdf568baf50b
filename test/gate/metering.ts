import { expect } from "chai";
import fc from "fast-check";
import type { Hex } from "turnpike/protocol";
import type { MeterEvent } from "../../sdk/src/gate/metering/events";
import { createMemoryMeterStore } from "../../sdk/src/gate/metering/memory-store";
import { createMeter, type Meter, type MeterOptions } from "../../sdk/src/gate/metering/meter";
import { MeteredChain } from "../support/metered-chain";

const PATIENT = { settleAgeMs: 3_600_000, settleAmount: 10n ** 30n, maxUnsettled: 10n ** 30n, pollMs: 1 };

async function code(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => "fulfilled",
    (error: { code: string }) => error.code,
  );
}

async function until(condition: () => boolean): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (!condition()) {
    if (Date.now() > deadline) throw new TypeError("the condition did not come true");
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

describe("Metering", () => {
  let chain: MeteredChain;
  let meter: Meter;
  let events: MeterEvent[];
  let nowMs: number;
  let nowSec: number;

  async function start(options: Partial<MeterOptions> = {}): Promise<Meter> {
    meter = createMeter({
      store: createMemoryMeterStore(),
      sender: chain.sender,
      states: chain.states,
      clock: { nowSec: () => nowSec },
      report: (event) => events.push(event),
      monotonicMs: () => nowMs,
      ...options,
      limits: { ...PATIENT, ...options.limits },
    });
    await meter.start();
    return meter;
  }

  beforeEach(() => {
    chain = new MeteredChain();
    events = [];
    nowMs = 1_000;
    nowSec = 1_000;
  });
  afterEach(() => meter.stop());

  describe("reserve", () => {
    it("charges the cost and tells what remains of the cap", async () => {
      await start();
      const idHash = chain.subscribe(1);
      expect(await meter.reserve(idHash, 300n, chain.facts(idHash))).to.deep.equal({
        charged: 300n,
        remaining: 700n,
        clipped: false,
      });
      expect(meter.remaining(idHash, chain.facts(idHash))).to.equal(700n);
    });

    it("clips a cost above what remains and serves it, then refuses with AllowanceExhausted", async () => {
      await start();
      const idHash = chain.subscribe(1);
      expect(await meter.reserve(idHash, 1_001n, chain.facts(idHash))).to.deep.equal({
        charged: 1_000n,
        remaining: 0n,
        clipped: true,
      });
      expect(await code(meter.reserve(idHash, 1n, chain.facts(idHash)))).to.equal("AllowanceExhausted");
    });

    it("charges nothing for a cost of 0, also when nothing remains", async () => {
      await start();
      const idHash = chain.subscribe(1, { cap: 0n });
      expect((await meter.reserve(idHash, 0n, chain.facts(idHash))).charged).to.equal(0n);
      expect(await code(meter.reserve(idHash, -1n, chain.facts(idHash)))).to.equal("ConfigError");
    });

    it("C13 parallel calls near the cap never pass it, and the last one is clipped", async () => {
      await start();
      const idHash = chain.subscribe(1, { spent: 50n });
      const calls = Array.from({ length: 200 }, () => meter.reserve(idHash, 7n, chain.facts(idHash)));
      const answers = await Promise.allSettled(calls);
      const charges = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
      expect(charges.reduce((sum, { charged }) => sum + charged, 0n)).to.equal(950n);
      expect(charges.filter(({ clipped }) => clipped)).to.have.length(1);
      await meter.flush();
      expect(chain.sumDebited()).to.equal(950n);
    });

    it("C13 charges of any sizes, with debits landing among them and facts of any age, never pass the cap", async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.bigInt(1n, 5_000n),
          fc.array(fc.record({ amount: fc.bigInt(1n, 900n), act: fc.constantFrom("call", "old", "settle", "land") }), {
            maxLength: 40,
          }),
          async (cap, steps) => {
            chain = new MeteredChain();
            await start();
            const idHash = chain.subscribe(1, { cap });
            chain.autoLand = false;
            const old = chain.facts(idHash);
            const calls: Promise<unknown>[] = [];
            let charged = 0n;
            for (const { amount, act } of steps) {
              if (act === "land") chain.land();
              else if (act === "settle") calls.push(meter.flush());
              else {
                const facts = act === "old" ? old : chain.facts(idHash);
                calls.push(
                  meter.reserve(idHash, amount, facts).then(
                    (charge) => {
                      charged += charge.charged;
                    },
                    () => undefined,
                  ),
                );
              }
              if (amount % 3n === 0n) await new Promise((resolve) => setImmediate(resolve));
            }
            chain.autoLand = true;
            chain.land();
            await Promise.all(calls);
            await meter.flush();
            expect(charged <= cap, `charged ${charged} of ${cap}`).to.equal(true);
            expect(chain.sumDebited()).to.equal(charged);
            expect(meter.unsettled().lost).to.equal(0n);
            await meter.stop();
          },
        ),
        { numRuns: 60 },
      );
    });

    it("neither counts a landed debit twice nor forgets it while the gate's view is a block behind", async () => {
      await start();
      const idHash = chain.subscribe(1);
      const before = chain.facts(idHash);
      await meter.reserve(idHash, 600n, before);
      chain.autoLand = false;
      const flushed = meter.flush();
      await until(() => chain.mempool.length === 1);
      expect(meter.remaining(idHash, before)).to.equal(400n);
      chain.land();
      expect(meter.remaining(idHash, chain.facts(idHash)), "seen on chain before the receipt").to.equal(400n);
      await flushed;
      expect(meter.remaining(idHash, before), "receipt before the gate's view").to.equal(400n);
      expect(meter.remaining(idHash, chain.facts(idHash))).to.equal(400n);
    });

    it("lets no more than maxUnsettled be owed: further calls wait for debits, then go on", async () => {
      await start({ limits: { maxUnsettled: 100n, settleAmount: 1_000n } });
      const idHash = chain.subscribe(1);
      chain.autoLand = false;
      const calls = Array.from({ length: 25 }, () => meter.reserve(idHash, 10n, chain.facts(idHash)));
      await until(() => chain.mempool.length === 1);
      expect(meter.unsettled().unsettled).to.equal(100n);
      expect(meter.isSaturated(idHash)).to.equal(true);
      chain.autoLand = true;
      chain.land();
      await Promise.all(calls);
      await meter.flush();
      expect(chain.sumDebited()).to.equal(250n);
      expect(chain.debited.map(({ amount }) => amount).every((amount) => amount <= 100n)).to.equal(true);
    });

    it("answers Unavailable, never 402, when debits do not become final in time", async () => {
      await start({ limits: { maxUnsettled: 100n, waitMs: 20 }, monotonicMs: () => performance.now() });
      const idHash = chain.subscribe(1);
      chain.isDown = true;
      await meter.reserve(idHash, 100n, chain.facts(idHash));
      expect(await code(meter.reserve(idHash, 1n, chain.facts(idHash)))).to.equal("Unavailable");
    });

    it("serves a single call that alone costs more than maxUnsettled", async () => {
      await start({ limits: { maxUnsettled: 100n } });
      const idHash = chain.subscribe(1);
      expect((await meter.reserve(idHash, 500n, chain.facts(idHash))).charged).to.equal(500n);
    });
  });

  describe("when debits are due", () => {
    it("merges calls until the amount is reached", async () => {
      await start({ limits: { settleAmount: 100n } });
      const idHash = chain.subscribe(1);
      for (let i = 0; i < 9; i++) await meter.reserve(idHash, 10n, chain.facts(idHash));
      await new Promise((resolve) => setImmediate(resolve));
      expect(chain.debited).to.have.length(0);
      await meter.reserve(idHash, 10n, chain.facts(idHash));
      await until(() => chain.debited.length === 1);
      expect(chain.debited[0]?.amount).to.equal(100n);
    });

    it("merges calls until the count is reached", async () => {
      await start({ limits: { settleCalls: 3 } });
      const idHash = chain.subscribe(1);
      for (let i = 0; i < 3; i++) await meter.reserve(idHash, 1n, chain.facts(idHash));
      await until(() => chain.sumDebited() === 3n);
    });

    it("debits what is small once it is old", async () => {
      await start({ limits: { settleAgeMs: 60_000 } });
      const idHash = chain.subscribe(1);
      await meter.reserve(idHash, 5n, chain.facts(idHash));
      nowMs += 60_000;
      await until(() => chain.sumDebited() === 5n);
    });

    it("A27 debits once before the cycle ends, so that usage falls into the cycle it belongs to", async () => {
      await start({ limits: { cycleMarginSec: 60 } });
      const idHash = chain.subscribe(1, { paidThroughSec: 2_000 });
      await meter.reserve(idHash, 5n, chain.facts(idHash));
      nowSec = 1_940;
      await until(() => chain.sumDebited() === 5n);
      await meter.reserve(idHash, 6n, chain.facts(idHash));
      chain.renew(idHash);
      await meter.flush();
      expect(chain.of(idHash).spent).to.equal(6n);
    });

    it("sends many subscriptions in one transaction, each with its own index", async () => {
      await start();
      const ids = Array.from({ length: 50 }, (_, i) => chain.subscribe(i + 1, { debits: i }));
      await Promise.all(ids.map((idHash) => meter.reserve(idHash, 2n, chain.facts(idHash))));
      await meter.flush();
      expect(chain.prepared).to.have.length(1);
      expect(chain.sumDebited()).to.equal(100n);
    });
  });

  describe("when a debit fails", () => {
    it("blocks the subscription for want of funds until a debit succeeds, and loses nothing", async () => {
      await start();
      const idHash = chain.subscribe(1, { funds: 10n });
      await meter.reserve(idHash, 50n, chain.facts(idHash));
      await meter.flush();
      expect(meter.isBlocked(idHash)).to.equal(true);
      expect(await code(meter.reserve(idHash, 1n, chain.facts(idHash)))).to.equal("InsufficientFunds");
      expect(events).to.deep.include({ kind: "blocked", idHash, reason: "InsufficientFunds" });

      chain.of(idHash).funds = 1_000n;
      nowMs += 2_000;
      await until(() => !meter.isBlocked(idHash));
      expect(chain.sumDebited()).to.equal(50n);
      expect(await code(meter.reserve(idHash, 1n, chain.facts(idHash)))).to.equal("fulfilled");
    });

    it("A13 one poisoned item in a batch: the others are debited in that transaction", async () => {
      await start();
      const ids = Array.from({ length: 20 }, (_, i) => chain.subscribe(i + 1));
      const poisoned = ids[7] as Hex;
      chain.of(poisoned).fault = "TransferFailed";
      chain.blindSimulation = true;
      await Promise.all(ids.map((idHash) => meter.reserve(idHash, 2n, chain.facts(idHash))));
      await meter.flush();
      expect(chain.sumDebited()).to.equal(38n);
      expect(meter.unsettled().unsettled).to.equal(2n);
      expect(meter.isBlocked(poisoned), "the token's fault, not the wallet's").to.equal(false);
      chain.of(poisoned).fault = undefined;
      await meter.flush();
      expect(chain.sumDebited()).to.equal(40n);
    });

    it("never sends what the simulation refuses: a retry costs no gas", async () => {
      await start();
      const idHash = chain.subscribe(1, { fault: "InsufficientApproval" });
      await meter.reserve(idHash, 5n, chain.facts(idHash));
      for (let i = 0; i < 5; i++) {
        await meter.flush();
        nowMs += 3_600_000;
      }
      expect(chain.submitted).to.have.length(0);
      expect(meter.isBlocked(idHash)).to.equal(true);
    });

    it("re-clips when the cap was lowered below what is owed, and shows the rest as lost", async () => {
      await start();
      const idHash = chain.subscribe(1);
      await meter.reserve(idHash, 800n, chain.facts(idHash));
      chain.of(idHash).cap = 500n;
      await meter.flush();
      expect(chain.sumDebited()).to.equal(500n);
      expect(meter.unsettled().lost).to.equal(300n);
      expect(events).to.deep.include({ kind: "lost", idHash, amount: 300n, reason: "clipped" });
    });

    it("debits what is owed from an older cycle within the new cycle's cap", async () => {
      await start();
      const idHash = chain.subscribe(1, { spent: 900n });
      await meter.reserve(idHash, 100n, chain.facts(idHash));
      chain.renew(idHash);
      expect(meter.remaining(idHash, chain.facts(idHash)), "what is owed counts in the new cycle").to.equal(900n);
      await meter.flush();
      expect(chain.of(idHash).spent).to.equal(100n);
    });

    it("shows what a cancellation costs, bounded by maxUnsettled", async () => {
      await start({ limits: { maxUnsettled: 300n } });
      const idHash = chain.subscribe(1);
      await meter.reserve(idHash, 300n, chain.facts(idHash));
      chain.of(idHash).status = "CANCELLED";
      await meter.flush();
      expect(meter.unsettled()).to.deep.include({ unsettled: 0n, lost: 300n, settled: 0n });
    });

    it("keeps what a paused subscription owes until it is resumed", async () => {
      await start();
      const idHash = chain.subscribe(1);
      await meter.reserve(idHash, 30n, chain.facts(idHash));
      chain.of(idHash).status = "PAUSED";
      await meter.flush();
      expect(meter.unsettled().unsettled).to.equal(30n);
      chain.of(idHash).status = "ACTIVE";
      await meter.flush();
      expect(chain.sumDebited()).to.equal(30n);
    });

    it("follows a rekey to the new idHash, with the same index", async () => {
      await start();
      const idHash = chain.subscribe(1, { debits: 3 });
      const moved = `0x${"77".repeat(32)}` as Hex;
      await meter.reserve(idHash, 30n, chain.facts(idHash));
      chain.rekey(idHash, moved);
      await meter.reserve(moved, 4n, chain.facts(moved));
      await meter.flush();
      expect(chain.sumDebited(moved)).to.equal(34n);
      expect(chain.debited.map(({ index }) => index).sort()).to.deep.equal(chain.debited.map((_, i) => 3 + i));
      expect(meter.unsettled().lost).to.equal(0n);
    });

    it("follows a rekey that overtakes a debit under way", async () => {
      await start();
      const idHash = chain.subscribe(1);
      const moved = `0x${"77".repeat(32)}` as Hex;
      await meter.reserve(idHash, 30n, chain.facts(idHash));
      chain.autoLand = false;
      const flushed = meter.flush();
      await until(() => chain.mempool.length === 1);
      chain.rekey(idHash, moved);
      chain.autoLand = true;
      chain.land();
      await flushed;
      nowMs += 2_000;
      await until(() => chain.sumDebited(moved) === 30n);
    });

    it("A28 a debit whose receipt was lost is debited once", async () => {
      await start();
      const idHash = chain.subscribe(1);
      await meter.reserve(idHash, 30n, chain.facts(idHash));
      const submit = chain.sender.submit;
      chain.sender.submit = async (payloads) => {
        await submit(payloads);
        chain.isDown = true;
      };
      void meter.flush().catch(() => undefined);
      await until(() => events.some(({ kind }) => kind === "trouble"));
      chain.sender.submit = submit;
      chain.isDown = false;
      await meter.flush();
      expect(chain.sumDebited()).to.equal(30n);
      expect(chain.prepared).to.have.length(1);
    });

    it("A28 a transaction whose nonce someone else used is made again under a fresh judgement", async () => {
      await start();
      const idHash = chain.subscribe(1);
      await meter.reserve(idHash, 30n, chain.facts(idHash));
      chain.autoLand = false;
      const flushed = meter.flush();
      await until(() => chain.mempool.length === 1);
      chain.stealNonce();
      chain.autoLand = true;
      await flushed;
      expect(chain.sumDebited()).to.equal(30n);
      expect(chain.prepared).to.have.length(2);
    });

    it("does not debit again by the word of an endpoint that lags behind the last debit", async () => {
      await start();
      const idHash = chain.subscribe(1);
      await meter.reserve(idHash, 30n, chain.facts(idHash));
      await meter.flush();
      const subscription = chain.of(idHash);
      await meter.reserve(idHash, 5n, chain.facts(idHash));
      Object.assign(subscription, { debits: 0, spent: 0n });
      const { block } = chain;
      chain.block = block - 1;
      await meter.flush();
      expect(chain.debited).to.have.length(1);
      Object.assign(subscription, { debits: 1, spent: 30n });
      chain.block = block;
      await meter.flush();
      expect(chain.debited.map(({ amount, index }) => [amount, index])).to.deep.equal([
        [30n, 0],
        [5n, 1],
      ]);
    });

    it("an outage stops nothing but the debits: calls are charged and debited when it ends", async () => {
      await start();
      const idHash = chain.subscribe(1);
      chain.isDown = true;
      await meter.reserve(idHash, 10n, chain.facts(idHash));
      expect(await code(meter.flush())).to.equal("Unavailable");
      await meter.reserve(idHash, 10n, chain.facts(idHash));
      chain.isDown = false;
      await meter.flush();
      expect(chain.sumDebited()).to.equal(20n);
    });
  });

  describe('settle: "each"', () => {
    it("debits every call on chain, with an index of its own, before it resolves", async () => {
      await start({ settle: "each" });
      const idHash = chain.subscribe(1);
      const facts = chain.facts(idHash);
      await Promise.all([1n, 2n, 3n].map((amount) => meter.reserve(idHash, amount, facts)));
      expect(chain.debited.map(({ amount, index }) => [amount, index])).to.deep.equal([
        [1n, 0],
        [2n, 1],
        [3n, 2],
      ]);
    });

    it("tells the caller of a failed debit, owes nothing and stays open", async () => {
      await start({ settle: "each" });
      const idHash = chain.subscribe(1, { funds: 10n });
      expect(await code(meter.reserve(idHash, 50n, chain.facts(idHash)))).to.equal("InsufficientFunds");
      expect(meter.unsettled().unsettled).to.equal(0n);
      expect((await meter.reserve(idHash, 10n, chain.facts(idHash))).charged).to.equal(10n);
    });

    it("C13 parallel calls near the cap never pass it", async () => {
      await start({ settle: "each" });
      const idHash = chain.subscribe(1, { cap: 50n });
      const facts = chain.facts(idHash);
      const answers = await Promise.allSettled(Array.from({ length: 20 }, () => meter.reserve(idHash, 7n, facts)));
      expect(answers.filter(({ status }) => status === "fulfilled")).to.have.length(8);
      expect(chain.sumDebited()).to.equal(50n);
    });

    it("says PaymentPending, never 402, when the debit was sent and its outcome is not known in time", async () => {
      await start({ settle: "each", limits: { waitMs: 30 }, monotonicMs: () => performance.now() });
      const idHash = chain.subscribe(1);
      chain.autoLand = false;
      expect(await code(meter.reserve(idHash, 5n, chain.facts(idHash)))).to.equal("PaymentPending");
      expect(meter.remaining(idHash, chain.facts(idHash)), "still promised").to.equal(995n);
      chain.land();
    });
  });
});
