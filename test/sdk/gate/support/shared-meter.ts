/** Tests of every shared meter store, for PostgreSQL and Redis, each with several meters at once. */
import { expect } from "chai";
import type { Hex } from "turnpike/protocol";
import type { Cells } from "../../../../sdk/src/gate/cells/cells";
import { createMeter, type Meter } from "../../../../sdk/src/gate/metering/meter";
import { type SharedMeterOptions, sharedMeterStore } from "../../../../sdk/src/gate/metering/shared-store";
import type { MeterEvent } from "../../../../sdk/src/gate/metering/store";
import { MeteredChain } from "../../../support/metered-chain";
import { until } from "../../../support/subscriptions";

const CAP = 1_000n;

const codeOfNone = (): undefined => undefined;

const codeOf = ({ code }: { readonly code: string }): string => code;

/** Replaces some methods of cells. */
const changed = (cells: Cells, parts: Partial<Cells>): Cells =>
  new Proxy(cells, {
    get(of, name: keyof Cells) {
      const part = parts[name] ?? of[name];
      return typeof part === "function" ? part.bind(of) : part;
    },
  });

/** @param make creates the cells of one new, empty space; called once per gate, with the same space until `next` */
export function testSharedMeter(make: (space: string) => Cells): void {
  let spaces = 0;
  let space = "";
  let chain: MeteredChain;
  let meters: Meter[];
  let events: MeterEvent[];

  beforeEach(() => {
    space = `meter ${spaces++} `;
    chain = new MeteredChain();
    meters = [];
    events = [];
  });
  afterEach(async () => {
    for (const meter of meters) await meter.stop();
  });

  async function gate(cells: Cells = make(space), limits = {}, options: SharedMeterOptions = {}): Promise<Meter> {
    const meter = createMeter({
      store: sharedMeterStore(cells, { leaseMs: 600, refreshMs: 40, ...options }),
      place: "eip155:1:0xown",
      sender: chain.sender,
      states: chain.states,
      clock: { nowSec: () => 1_000 },
      limits: { settleAmount: 10n ** 9n, settleAgeMs: 60_000, pollMs: 20, ...limits },
      report: (event) => void events.push(event),
      receipts: true,
    });
    meters.push(meter);
    await meter.start();
    return meter;
  }

  it("C13 never let several gates together charge above the cap, and debit exactly what was charged", async () => {
    const idHash: Hex = chain.subscribe(1, { cap: CAP });
    const gates = await Promise.all([gate(), gate(), gate()]);
    const facts = chain.facts(idHash);
    const calls = Array.from({ length: 150 }, (_, i) => gates[i % 3]?.reserve(idHash, 10n, facts));
    const outcomes = await Promise.allSettled(calls);
    const charged = outcomes.flatMap((outcome) =>
      outcome.status === "fulfilled" ? [outcome.value?.charged ?? 0n] : [],
    );
    expect(charged).to.have.length(100);
    for (const outcome of outcomes) {
      if (outcome.status === "rejected") expect(outcome.reason.code).to.equal("AllowanceExhausted");
    }
    await gates[2]?.flush();
    expect(chain.sumDebited()).to.equal(CAP);
    for (const one of gates) {
      // Each gate reads the others' entries at its next refresh.
      await until(() => one.unsettled().settled === CAP);
      expect(one.unsettled()).to.include({ charged: CAP, unsettled: 0n, lost: 0n });
    }
  });

  it("C13 report a debit once, also where it is recorded between two readings", async () => {
    const idHash = chain.subscribe(1, { cap: CAP });
    const other = await gate();
    await other.reserve(idHash, 30n, chain.facts(idHash));
    const cells = make(space);
    let next: (() => Promise<unknown>) | undefined;
    const listed = async () => {
      const found = await cells.listed();
      const act = next;
      next = undefined;
      await act?.();
      return found;
    };
    const store = sharedMeterStore(changed(cells, { listed }), {
      leaseMs: 600,
      refreshMs: 600_000,
    });
    await store.open();
    expect(store.totals()).to.include({ charged: 30n, settled: 0n });
    next = () => other.flush();
    await store.reload();
    expect(store.totals()).to.deep.equal({ charged: 30n, settled: 30n, lost: 0n });
    await store.close();
  });

  it("HA37 are of one contract: a gate of another chain is refused, and sends none of its debits", async () => {
    const idHash = chain.subscribe(1, { cap: CAP });
    const one = await gate();
    await one.reserve(idHash, 30n, chain.facts(idHash));
    await one.stop();
    const foreign = new MeteredChain();
    const meter = createMeter({
      store: sharedMeterStore(make(space)),
      place: "eip155:2:0xother",
      sender: foreign.sender,
      states: foreign.states,
      clock: { nowSec: () => 1_000 },
    });
    const fault = await meter.start().catch((error: Error) => error);
    expect(fault).to.include({ code: "ConfigError" });
    expect(String((fault as Error).message)).to.equal(
      "meterStore has the charges of eip155:1:0xown, and this gate meters on eip155:2:0xother: give each a store with a prefix (Redis) or a space (PostgreSQL) of its own",
    );
    const next = await gate();
    await next.flush();
    expect(chain.sumDebited()).to.equal(30n);
  });

  it("report what is unsettled at every gate, whichever charged it", async () => {
    const idHash = chain.subscribe(1, { cap: CAP });
    const [one, other] = [await gate(), await gate()];
    await other.reserve(idHash, 30n, chain.facts(idHash));
    await until(() => one.unsettled().unsettled === 30n);
    expect(other.unsettled().subscriptions[0]).to.include({ idHash, pending: 30n });
    expect(one.remaining(idHash, chain.facts(idHash))).to.equal(CAP - 30n);
  });

  const nameOf = (n: number): Hex => `0x${n.toString(16).padStart(32, "0")}`;

  it("SM2 C13 never let the streams of several gates together reserve above the cap", async () => {
    const idHash = chain.subscribe(1, { cap: CAP });
    const gates = await Promise.all([gate(), gate()]);
    const facts = chain.facts(idHash);
    const charge = async (i: number, need: bigint, ahead: bigint) => {
      const meter = gates[i % 2];
      const held = await meter?.holdAhead({ idHash, facts, hold: nameOf(i), need, ahead }).catch(codeOf);
      if (held === undefined || typeof held === "string") return held;
      return (await meter?.chargeHold({ idHash, facts, hold: nameOf(i), total: held.held, release: true }))?.charged;
    };
    const outcomes = await Promise.all(Array.from({ length: 20 }, (_, i) => charge(i, 10n, 60n)));
    // Those that were refused may be retried now: nothing is held, and the rest of the cap is there for one of them.
    outcomes.push(await charge(20, CAP, 0n), await charge(21, 10n, 0n));
    expect(outcomes.at(-1)).to.equal("AllowanceExhausted");
    const charged = outcomes.flatMap((one) => (typeof one === "bigint" ? [one] : []));
    const sum = charged.reduce((total, one) => total + one, 0n);
    await gates[0]?.flush();
    expect([sum, chain.sumDebited()], "the cap, to the unit").to.deep.equal([CAP, CAP]);
  });

  it("UR3 number each receipt once, whichever gate charges, and go on after a rekey under the old name", async () => {
    const idHash = chain.subscribe(1, { cap: CAP });
    const facts = chain.facts(idHash);
    const gates = await Promise.all([gate(), gate(), gate()]);
    const calls = Array.from({ length: 30 }, (_, i) => gates[i % 3]?.reserve(idHash, 10n, facts));
    const streams = gates.map(async (one, i) => {
      await one.holdAhead({ idHash, facts, hold: nameOf(i), need: 10n, ahead: 10n });
      return one.chargeHold({ idHash, facts, hold: nameOf(i), total: 20n, release: true });
    });
    const numbered = (await Promise.all([...calls, ...streams])).map((one) => one?.receipt);
    numbered.sort((a, b) => (a?.sequence ?? 0) - (b?.sequence ?? 0));
    expect(numbered.map((one) => one?.sequence)).to.deep.equal(Array.from({ length: 33 }, (_, i) => i + 1));
    expect(numbered.at(-1)?.total).to.equal(360n);
    const [one] = gates;
    const late = await gate(make(space), {}, { refreshMs: 600_000 });
    chain.rekey(idHash, nameOf(99));
    await one?.flush();
    const next = [await one?.reserve(idHash, 1n, facts), await late.reserve(idHash, 1n, facts)];
    expect(next.map((each) => each?.receipt?.sequence)).to.deep.equal([34, 35]);
  });

  it("SM3 charge a hold once, though the answer of the store is lost", async () => {
    const idHash = chain.subscribe(1, { cap: CAP });
    const [one, facts] = [await gate(), chain.facts(idHash)];
    await one.holdAhead({ idHash, facts, hold: nameOf(1), need: 100n, ahead: 0n });
    const charge = { idHash, facts, hold: nameOf(1), total: 40n, release: false };
    expect((await one.chargeHold(charge)).charged).to.equal(40n);
    expect(one.unsettled(), "what is reserved ahead is not charged").to.include({ unsettled: 100n, charged: 40n });
    expect((await one.chargeHold(charge)).charged).to.equal(40n);
    await one.flush();
    expect(chain.sumDebited(), "a flush waits for no running stream").to.equal(40n);
    expect((await one.chargeHold({ ...charge, total: 55n, release: true })).charged).to.equal(55n);
    expect((await one.chargeHold(charge)).charged, "a hold that is gone").to.equal(0n);
    await one.flush();
    expect(chain.sumDebited()).to.equal(55n);
  });

  it("SM3 release what a gate had reserved that is silent for too long, and charge it no more", async () => {
    const idHash = chain.subscribe(1, { cap: CAP });
    const facts = chain.facts(idHash);
    const [silent, other] = [await gate(), await gate()];
    await silent.holdAhead({ idHash, facts, hold: nameOf(1), need: CAP, ahead: 0n });
    await silent.chargeHold({ idHash, facts, hold: nameOf(1), total: 300n, release: false });
    expect(await other.reserve(idHash, 1n, facts).catch(codeOf), "it can be retried").to.equal("Unavailable");
    const cells = make(space);
    // Its clock is past the minute for which a silent gate's reservation is kept.
    const late = await gate(changed(cells, { nowMs: async () => (await cells.nowMs()) + 61_000 }));
    await until(() => late.remaining(idHash, facts) === CAP - 300n);
    await late.reserve(idHash, 700n, facts);
    expect((await silent.chargeHold({ idHash, facts, hold: nameOf(1), total: 900n, release: true })).charged).to.equal(
      0n,
    );
    await late.flush();
    expect(chain.sumDebited()).to.equal(CAP);
  });

  it("SM3 charge and release holds whose changes a gate has not read yet", async () => {
    const [idHash, to] = [chain.subscribe(1, { cap: CAP }), nameOf(77)];
    const facts = chain.facts(idHash);
    const [one, late] = [await gate(), await gate(make(space), {}, { refreshMs: 600_000 })];
    await late.reserve(idHash, 1n, facts);
    await one.holdAhead({ idHash, facts, hold: nameOf(1), need: CAP - 1n, ahead: 0n });
    await late.chargeHold({ idHash, facts, hold: nameOf(1), total: 0n, release: true });
    await late.holdAhead({ idHash, facts, hold: nameOf(2), need: CAP - 1n, ahead: 0n });
    await late.chargeHold({ idHash, facts, hold: nameOf(2), total: 40n, release: false });
    chain.rekey(idHash, to);
    await one.flush();
    expect((await late.chargeHold({ idHash, facts, hold: nameOf(2), total: 70n, release: true })).charged).to.equal(
      70n,
    );
    await one.flush();
    expect(chain.sumDebited(to)).to.equal(71n);
  });

  it("A28 pass the lane on when its owner dies: nothing is lost, and nothing is debited twice", async () => {
    const ids = Array.from({ length: 4 }, (_, i): Hex => chain.subscribe(i + 1, { cap: 10n ** 9n }));
    let charged = 0n;
    for (let life = 0; life < 3; life++) {
      // Dies at an arbitrary step: from one moment on its store never responds.
      let isDead = false;
      const cells = make(space);
      const mortal = gateCells(cells, () => isDead);
      const dying = await gate(mortal, { settleAmount: 50n, settleAgeMs: 10 });
      for (let i = 0; i < 40; i++) {
        const idHash = ids[i % ids.length] as Hex;
        charged += (await dying.reserve(idHash, 7n, chain.facts(idHash))).charged;
      }
      isDead = true;
      meters.splice(meters.indexOf(dying), 1);
    }
    const last = await gate();
    await until(
      async () =>
        await last.flush().then(
          () => true,
          () => false,
        ),
      60_000,
    );
    expect(chain.sumDebited()).to.equal(charged);
    expect(last.unsettled()).to.include({ settled: charged, unsettled: 0n, lost: 0n });
  }).timeout(120_000);

  it("HA4 pass the debits to a gate that may send them when the sender no longer may", async () => {
    const idHash = chain.subscribe(1, { cap: CAP });
    const sender = await gate();
    await sender.reserve(idHash, 30n, chain.facts(idHash));
    const other = await gate();
    sender.setCollecting(false);
    await other.reserve(idHash, 20n, chain.facts(idHash));
    await until(
      async () =>
        await other.flush().then(
          () => true,
          () => false,
        ),
    );
    expect(chain.sumDebited()).to.equal(50n);
    other.setCollecting(false);
    sender.setCollecting(true);
    await sender.reserve(idHash, 10n, chain.facts(idHash));
    await sender.flush();
    expect(chain.sumDebited()).to.equal(60n);
  }).timeout(120_000);

  it("HA33 try a paused subscription's debit once in two seconds, however often it is asked for", async () => {
    const [paused, live] = [1, 2].map((n): Hex => chain.subscribe(n, { cap: CAP })) as [Hex, Hex];
    const limits = { waitMs: 1_500 };
    const sender = await gate(undefined, limits);
    const other = await gate(undefined, limits);
    await other.reserve(paused, 30n, chain.facts(paused));
    await other.reserve(live, 20n, chain.facts(live));
    chain.of(paused).status = "PAUSED";
    const tries = () => events.filter(({ kind }) => kind === "postponed").length;
    await sender.flush();
    expect([chain.sumDebited(), tries()], "the others are debited, and the flush ends").to.deep.equal([20n, 1]);
    expect(await other.flush().catch(codeOf)).to.equal("Unavailable");
    const [cells, key] = [make(space), `account:${paused}`];
    await until(async () => (await cells.read([key]))[0]?.startsWith('{"account"') === true);
    expect(tries()).to.be.at.most(3);
    chain.of(paused).status = "ACTIVE";
    const flushed = () => other.flush().then(codeOfNone, codeOf);
    await until(async () => (await flushed()) === undefined);
    expect(chain.sumDebited()).to.equal(50n);
  }).timeout(120_000);

  it("enforce the limit of unsettled charges across gates", async () => {
    const idHash = chain.subscribe(1, { cap: 10n ** 9n });
    const limits = { maxUnsettled: 100n, waitMs: 30_000 };
    const gates = await Promise.all([gate(undefined, limits), gate(undefined, limits)]);
    let most = 0n;
    const watch = setInterval(() => {
      for (const one of gates) {
        const { unsettled } = one.unsettled();
        if (unsettled > most) most = unsettled;
      }
    }, 5);
    const calls = Array.from({ length: 40 }, (_, i) => gates[i % 2]?.reserve(idHash, 10n, chain.facts(idHash)));
    await Promise.all(calls);
    clearInterval(watch);
    expect(most <= 100n, `${most}`).to.equal(true);
    await gates[0]?.flush();
    expect(chain.sumDebited()).to.equal(400n);
  }).timeout(120_000);
}

function gateCells(cells: Cells, isDead: () => boolean): Cells {
  const alive = async <T>(ask: () => Promise<T>): Promise<T> => {
    if (isDead()) return new Promise<T>(() => undefined);
    const answer = await ask();
    return isDead() ? new Promise<T>(() => undefined) : answer;
  };
  return changed(cells, {
    nowMs: () => alive(() => cells.nowMs()),
    read: (keys) => alive(() => cells.read(keys)),
    swap: (changes, times) => alive(() => cells.swap(changes, times)),
    listed: () => alive(() => cells.listed()),
  });
}
