import { expect } from "chai";
import fc from "fast-check";
import { type Hex, Unavailable } from "turnpike/protocol";
import { HeldMeter } from "../../../../sdk/src/gate/metering/held-meter";
import {
  costOf,
  type UsageAccount,
  type UsageMeterOptions,
  unitPriceOf,
  usageTermsOf,
} from "../../../../sdk/src/gate/metering/usage-meter";
import { MeteredChain } from "../../../support/metered-chain";
import { until } from "../../../support/subscriptions";
import { codeOf, type MeterWorld, meterBeforeEach } from "../support/meter-world";

const TOKEN = { decimals: 6, currency: "USD" } as const;

/** A meter of a subscription; its clock moves when the test says so. */
function meterOf(world: MeterWorld, idHash: Hex, options: Partial<UsageMeterOptions> = {}) {
  const charges: { units: bigint; amount: bigint }[] = [];
  const ticks: (() => void)[] = [];
  const facts = () => world.chain.facts(idHash);
  const account: UsageAccount = {
    hold: (request) => world.meter.holdAhead({ ...request, idHash, facts: facts() }),
    async charge(request) {
      const done = await world.meter.chargeHold({ ...request, idHash, facts: facts() });
      if (done.added > 0n) charges.push({ units: request.usage.units, amount: done.added });
      return done;
    },
    track: (end) => world.meter.onStop(end),
    takeReceipts: () => [],
    noteUnstated: () => undefined,
  };
  const terms = usageTermsOf({ unit: "token", unitPrice: 1n, step: 100n, ...options }, TOKEN);
  const every = (_periodMs: number, work: () => void) => {
    ticks.push(work);
    return () => void ticks.splice(ticks.indexOf(work), 1);
  };
  const meter = new HeldMeter(terms, { account, every, monotonicMs: () => world.nowMs });
  return { meter, charges, account, tick: () => ticks.forEach((work) => void work()) };
}

describe("A unit price", () => {
  it("takes base units and prices, and names what is wrong", () => {
    expect(unitPriceOf(5n, TOKEN, "p")).to.deep.equal({ amount: 5n, per: 1n });
    expect(unitPriceOf("$0.000002", TOKEN, "p")).to.deep.equal({ amount: 2n, per: 1n });
    expect(unitPriceOf({ amount: "$0.15", per: 1_000_000 }, TOKEN, "p").amount).to.equal(150_000n);
    expect(costOf({ amount: 150_000n, per: 1_000_000n }, 7n)).to.equal(2n);
    expect(costOf({ amount: 150_000n, per: 1_000_000n }, 0n)).to.equal(0n);
    expect(() => unitPriceOf("$0.0000002", TOKEN, "unitPrice")).to.throw(/unitPrice is "\$0.0000002".*fraction digits/);
    expect(() => unitPriceOf({ amount: 1n, per: 0 }, TOKEN, "unitPrice")).to.throw("unitPrice.per is 0");
    expect(() => unitPriceOf(0.5, TOKEN, "unitPrice")).to.throw("unitPrice is 0.5");
    expect(() => unitPriceOf({ amount: 1n, per: 1.5 }, TOKEN, "unitPrice")).to.throw(
      /per is 1.5.*whole number of units/,
    );
    expect(() => usageTermsOf(undefined as never, TOKEN)).to.throw("meter: options are undefined");
    expect(() => usageTermsOf({ unit: "", unitPrice: 1n }, TOKEN)).to.throw("unit is");
    expect(() => usageTermsOf({ unit: "a\n", unitPrice: 1n }, TOKEN)).to.throw("unit is");
    expect(() => usageTermsOf({ unit: "a", unitPrice: 1n, step: 0n }, TOKEN)).to.throw("step is 0");
  });
});

describe("Metering an answer in units", () => {
  const worldOf = meterBeforeEach();
  const facts = (idHash: Hex) => worldOf().chain.facts(idHash);
  const pendingOf = () => worldOf().meter.unsettled().subscriptions[0]?.pending ?? 0n;

  async function subscribed(cap: bigint): Promise<{ world: MeterWorld; idHash: Hex }> {
    const world = worldOf();
    world.chain = new MeteredChain();
    await world.start();
    return { world, idHash: world.chain.subscribe(1, { cap }) };
  }

  describe("the unit price", () => {
    it("SM1 rounds the running total once, whatever it is made of", async () => {
      const { world, idHash } = await subscribed(10n ** 12n);
      const unitPrice = { amount: "$0.15", per: 1_000_000 };
      const parts = fc.array(fc.integer({ min: 0, max: 5_000 }), { minLength: 1, maxLength: 30 });
      await fc.assert(
        fc.asyncProperty(parts, async (units) => {
          const { meter } = meterOf(world, idHash, { unitPrice });
          for (const one of units) await meter.add(one);
          const total = BigInt(units.reduce((sum, one) => sum + one, 0));
          const { amount } = await meter.end();
          expect(amount).to.equal((total * 150_000n + 999_999n) / 1_000_000n);
        }),
        { numRuns: 40 },
      );
    });
  });

  it("reserves a step ahead, charges what was delivered at the end, and releases the rest", async () => {
    const { world, idHash } = await subscribed(1_000n);
    const { meter, charges } = meterOf(world, idHash);
    expect(await meter.add(30)).to.deep.equal({ units: 30n, amount: 30n, remaining: 970n, clipped: false });
    expect(world.meter.remaining(idHash, facts(idHash)), "others see the whole step").to.equal(900n);
    await meter.add(40);
    expect(await meter.end()).to.deep.equal({ units: 70n, amount: 70n, remaining: 930n, clipped: false });
    expect(world.meter.remaining(idHash, facts(idHash))).to.equal(930n);
    await world.meter.flush();
    expect(world.chain.sumDebited(idHash)).to.equal(70n);
    expect(charges).to.deep.equal([{ units: 70n, amount: 70n }]);
    await meter.end();
    expect(charges, "an end is one end").to.have.length(1);
  });

  it("records each step before the next one begins", async () => {
    const { world, idHash } = await subscribed(1_000n);
    const { meter, charges } = meterOf(world, idHash);
    for (let i = 0; i < 5; i++) await meter.add(60);
    expect(charges).to.deep.equal(Array.from({ length: 4 }, () => ({ units: 60n, amount: 60n })));
    expect(world.meter.unsettled().charged, "delivered and recorded").to.equal(240n);
    await meter.end();
    expect(world.meter.unsettled().charged).to.equal(300n);
  });

  it("SM2 stops at the cap: the last units are clipped to what remains, and no more are taken", async () => {
    const { world, idHash } = await subscribed(250n);
    const { meter } = meterOf(world, idHash);
    for (let i = 0; i < 6; i++) expect((await meter.add(40)).clipped).to.equal(false);
    expect(await meter.add(40)).to.deep.equal({ units: 280n, amount: 250n, remaining: 0n, clipped: true });
    expect(await codeOf(meter.add(1))).to.equal("AllowanceExhausted");
    await meter.end();
    await world.meter.flush();
    expect(world.chain.sumDebited(idHash)).to.equal(250n);
    const { meter: next } = meterOf(world, idHash);
    expect(await codeOf(next.add(1)), "before anything is delivered").to.equal("AllowanceExhausted");
    expect(next.usage.units).to.equal(0n);
  });

  it("finishes beyond the cap at the provider's own cost where that is its choice", async () => {
    const { world, idHash } = await subscribed(50n);
    const { meter, charges } = meterOf(world, idHash, { atCap: "finish" });
    for (let i = 0; i < 5; i++) await meter.add(40);
    expect(await meter.end()).to.deep.equal({ units: 200n, amount: 50n, remaining: 0n, clipped: true });
    const units = charges.reduce((sum, one) => sum + one.units, 0n);
    const amount = charges.reduce((sum, one) => sum + one.amount, 0n);
    expect({ units, amount }, "all that was delivered, for what the cap allowed").to.deep.equal({
      units: 200n,
      amount: 50n,
    });
    await world.meter.flush();
    expect(world.chain.sumDebited(idHash)).to.equal(50n);
  });

  it("C13 SM2 streams and calls in parallel never exceed the cap, and lose nothing of what was delivered", async () => {
    const plan = fc.array(fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 12 }), {
      minLength: 1,
      maxLength: 6,
    });
    await fc.assert(
      fc.asyncProperty(plan, fc.integer({ min: 1, max: 1_500 }), async (streams, cap) => {
        const { world, idHash } = await subscribed(BigInt(cap));
        const amounts = streams.map(async (parts, i) => {
          const { meter } = meterOf(world, idHash);
          try {
            for (const units of parts) if ((await meter.add(units)).clipped) break;
          } catch (error) {
            const { code, reason } = error as { code: string; reason?: string };
            expect(reason ?? code).to.be.oneOf(["AllowanceExhausted", "cap_reserved"]);
          }
          if (i % 2 === 0) await world.meter.reserve(idHash, 7n, facts(idHash)).catch(() => undefined);
          return (await meter.end()).amount;
        });
        const sum = (await Promise.all(amounts)).reduce((total, amount) => total + amount, 0n);
        await world.meter.flush();
        const debited = world.chain.sumDebited(idHash);
        expect(debited >= sum && debited <= BigInt(cap), `${sum} ${debited} ${cap}`).to.equal(true);
        expect(debited - sum <= 7n * BigInt(streams.length)).to.equal(true);
        await world.meter.stop();
      }),
      { numRuns: 25 },
    );
  });

  it("records by itself, and releases what an idle answer has reserved", async () => {
    const { world, idHash } = await subscribed(1_000n);
    const { meter, tick } = meterOf(world, idHash);
    await meter.add(30);
    tick();
    // In turn, after the tick.
    await meter.add(0);
    expect(world.meter.unsettled().charged, "recorded").to.equal(30n);
    expect(pendingOf(), "the step is kept while the answer runs").to.equal(100n);
    tick();
    await meter.add(0);
    tick();
    await meter.add(0);
    expect(pendingOf(), "released").to.equal(30n);
    await meter.add(5);
    expect((await meter.end()).amount).to.equal(35n);
  });

  it("SM3 charges nothing more of a hold that was released meanwhile, and goes on with another", async () => {
    const { world, idHash } = await subscribed(1_000n);
    const { meter, account, charges } = meterOf(world, idHash);
    await meter.add(30);
    // Another gate has found this one silent for too long.
    const charge = account.charge;
    Object.assign(account, { charge: (request: { hold: Hex }) => charge({ ...request, hold: "0x00" } as never) });
    await meter.add(90);
    Object.assign(account, { charge });
    expect(await meter.end()).to.include({ units: 120n, amount: 90n });
    expect(charges.reduce((sum, one) => sum + one.amount, 0n)).to.equal(90n);
  });

  it("SM3 still states what a hold had charged before it was released", async () => {
    const { world, idHash } = await subscribed(1_000n);
    const { meter, account, charges, tick } = meterOf(world, idHash);
    await meter.add(30);
    tick();
    await meter.add(20);
    const charge = account.charge;
    Object.assign(account, { charge: (request: { hold: Hex }) => charge({ ...request, hold: "0x00" } as never) });
    await meter.add(90);
    Object.assign(account, { charge });
    expect(await meter.end()).to.include({ units: 140n, amount: 120n });
    expect(world.meter.unsettled().charged).to.equal(120n);
    expect(charges.map(({ amount }) => amount)).to.deep.equal([30n, 90n]);
  });

  it("SM3 charges once, though an answer of the store is lost and the charge is repeated", async () => {
    const { world, idHash } = await subscribed(1_000n);
    const { meter, account } = meterOf(world, idHash);
    await meter.add(30);
    const charge = account.charge;
    Object.assign(account, {
      charge: async (request: never) => {
        await charge(request);
        throw new Unavailable("the answer was lost");
      },
    });
    expect(await codeOf(meter.add(90)), "the next step").to.equal("Unavailable");
    expect(await codeOf(meter.add(5)), "what is left of a step that may be released").to.equal("Unavailable");
    expect(await codeOf(meter.end())).to.equal("Unavailable");
    Object.assign(account, { charge });
    expect(await meter.end()).to.include({ units: 30n, amount: 30n });
    expect(world.meter.unsettled().charged).to.equal(30n);
  });

  it("counts nothing when it cannot reserve, and can be tried again", async () => {
    const { world, idHash } = await subscribed(1_000n);
    const { meter, account } = meterOf(world, idHash);
    const hold = account.hold;
    Object.assign(account, { hold: () => Promise.reject(new Unavailable("the store is away")) });
    expect(await codeOf(meter.add(30))).to.equal("Unavailable");
    expect(meter.usage.units).to.equal(0n);
    Object.assign(account, { hold });
    await meter.add(30);
    expect((await meter.end()).amount).to.equal(30n);
  });

  it("keeps the order of units that are added at once, and refuses them after the end", async () => {
    const { world, idHash } = await subscribed(1_000n);
    const { meter } = meterOf(world, idHash);
    const usages = await Promise.all([50, 60, 70, 80].map((units) => meter.add(units)));
    expect(usages.map(({ amount }) => amount)).to.deep.equal([50n, 110n, 180n, 260n]);
    await meter.end();
    expect(await codeOf(meter.add(1))).to.equal("Internal");
    for (const units of [-1, 0.5, Number.NaN]) {
      const message = await meter.add(units).catch((error: Error) => error.message);
      expect(message).to.contain("meter.add(units)").and.contain("whole number of units");
    }
  });

  it("keeps the age of what it owes while it records more, so that a long answer is debited in time", async () => {
    const world = worldOf();
    await world.start({ limits: { settleAgeMs: 1_000 } });
    const idHash = world.chain.subscribe(1, { cap: 1_000n });
    const { meter, tick } = meterOf(world, idHash);
    for (let i = 0; i < 3; i++) {
      await meter.add(10);
      tick();
      world.nowMs += 600;
    }
    await until(() => world.chain.sumDebited(idHash) > 0n);
    await meter.end();
  });

  it("leaves nothing behind when its handler forgets its end", async () => {
    const { world, idHash } = await subscribed(1_000n);
    let tracked = 0;
    const { onStop } = world.meter;
    Object.assign(world.meter, {
      onStop: (work: () => Promise<unknown>) => {
        const withdraw = onStop(work);
        tracked += 1;
        return () => {
          tracked -= 1;
          withdraw();
        };
      },
    });
    const { meter, tick } = meterOf(world, idHash);
    await meter.add(30);
    expect(tracked).to.equal(1);
    tick();
    tick();
    await meter.add(0);
    expect(tracked).to.equal(0);
  });

  it("records what was delivered when the gate stops", async () => {
    const { world, idHash } = await subscribed(1_000n);
    const { meter } = meterOf(world, idHash);
    await meter.add(30);
    await world.meter.stop();
    expect(world.meter.unsettled()).to.include({ charged: 30n, unsettled: 30n });
    await world.meter.start();
  });

  it("follows a subscription that gets a new idHash while the answer runs", async () => {
    const { world, idHash } = await subscribed(1_000n);
    const to: Hex = `0x${"77".repeat(32)}`;
    const { meter } = meterOf(world, idHash, { step: 50n });
    await meter.add(40);
    await meter.add(40);
    world.chain.rekey(idHash, to);
    await world.meter.flush();
    await meter.add(40);
    await meter.end();
    await world.meter.flush();
    expect([world.chain.sumDebited(idHash), world.chain.sumDebited(to)]).to.deep.equal([0n, 120n]);
  });

  it("waits for debits where its step does not fit under maxUnsettled", async () => {
    const world = worldOf();
    await world.start({ limits: { maxUnsettled: 150n, settleAmount: 10n ** 9n, waitMs: 10_000 } });
    const idHash = world.chain.subscribe(1, { cap: 10_000n });
    const { meter } = meterOf(world, idHash);
    for (let i = 0; i < 20; i++) await meter.add(60);
    await meter.end();
    await world.meter.flush();
    expect(world.chain.sumDebited(idHash)).to.equal(1_200n);
  });
});
