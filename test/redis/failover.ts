import { expect } from "chai";
import { type RedisClient, redisClaims } from "turnpike/gate/redis";
import type { Hex } from "turnpike/protocol";
import { cellsOn } from "../../sdk/src/gate/cells/cells";
import { redisCells } from "../../sdk/src/gate/cells/redis";
import { METER_STORE, sharedMeterStore } from "../../sdk/src/gate/metering/shared-store";
import { attempt, idOf } from "../sdk/gate/support/claim-store";
import { MeteredChain } from "../support/metered-chain";
import { until } from "../support/subscriptions";
import { metersAfterEach } from "./support/meters";
import { type Replicated, startReplicated } from "./support/replicated";
import { clientsOf, disconnectAll, startSentinel, type TestSentinel } from "./support/sentinel";

const CAP = 1_000n;

describe("a Redis that fails over to its replica", function () {
  this.timeout(120_000);
  let pair: Replicated;
  const startMeter = metersAfterEach({ mayBeGone: true });

  beforeEach(async () => {
    pair = await startReplicated();
  });
  afterEach(() => pair.stop());

  // A gate that is gone sends for a moment only.
  const meterStore = (client: RedisClient) =>
    sharedMeterStore(cellsOn(redisCells(client, { prefix: "{meter}:", lists: true }), { what: METER_STORE }), {
      leaseMs: 600,
      refreshMs: 40,
    });

  const codeOf = ({ code }: { readonly code: string }): string => code;

  it("HA36 debits a charge once, though the replica lacks the last writes", async () => {
    const chain = new MeteredChain();
    const idHash = chain.subscribe(1, { cap: CAP });
    const before = await startMeter(meterStore(pair.master.client), chain, { waitMs: 1_500 });
    await before.reserve(idHash, 30n, chain.facts(idHash));
    await pair.caughtUp();
    pair.hold();
    expect(await before.flush().catch(codeOf)).to.equal("Unavailable");
    expect(chain.sumDebited(), "no debit leaves before the replica has it").to.equal(0n);
    await pair.failOver();
    const after = await startMeter(meterStore(pair.replica.client), chain);
    await after.flush();
    expect(chain.sumDebited()).to.equal(30n);
  });

  it("HA36 sends the debit once its replica has it, or is gone", async () => {
    const chain = new MeteredChain();
    const idHash = chain.subscribe(1, { cap: CAP });
    const meter = await startMeter(meterStore(pair.master.client), chain);
    await meter.reserve(idHash, 30n, chain.facts(idHash));
    await meter.flush();
    expect(chain.sumDebited()).to.equal(30n);
    pair.hold();
    await meter.reserve(idHash, 20n, chain.facts(idHash));
    const flushed = meter.flush();
    pair.release();
    await flushed;
    expect(chain.sumDebited()).to.equal(50n);
    await pair.replica.kill();
    await meter.reserve(idHash, 10n, chain.facts(idHash));
    await meter.flush();
    expect(chain.sumDebited()).to.equal(60n);
  });

  it("HA36 debits what was sent before the failover from the copy of its batch, and loses what it lacks", async () => {
    const chain = new MeteredChain();
    const idHash = chain.subscribe(1, { cap: CAP });
    chain.autoLand = false;
    const before = await startMeter(meterStore(pair.master.client), chain, { waitMs: 1_500 });
    const first = await before.reserve(idHash, 30n, chain.facts(idHash));
    // Sent, and not on the chain yet.
    expect(await before.flush().catch(codeOf)).to.equal("Unavailable");
    await pair.caughtUp();
    pair.hold();
    const lost = await before.reserve(idHash, 10n, chain.facts(idHash));
    await pair.failOver();
    chain.land();
    chain.autoLand = true;
    const after = await startMeter(meterStore(pair.replica.client), chain);
    const next = await after.reserve(idHash, 5n, chain.facts(idHash));
    await after.flush();
    expect(chain.sumDebited(), "the charge of 10 is never debited").to.equal(35n);
    const numbers = [first, lost, next].map(({ receipt }) => receipt?.sequence);
    expect(numbers, "the number of a lost charge is used again").to.deep.equal([1, 2, 2]);
  });

  it("HA36 has a claim made once more that the replica lacks, and every other one not", async () => {
    const before = redisClaims(pair.master.client);
    const key = await before.grantKey();
    const kept = await attempt(before, idOf("kept"));
    await before.apply(idOf("kept"), { act: "use", owner: kept.owner });
    await pair.caughtUp();
    pair.hold();
    const lost = await attempt(before, idOf("lost"));
    await before.apply(idOf("lost"), { act: "use", owner: lost.owner });
    await pair.failOver();
    const after = redisClaims(pair.replica.client);
    expect(await after.grantKey(), "the same for every gate").to.equal(key);
    expect((await attempt(after, idOf("kept"))).kind).to.equal("used");
    expect((await attempt(after, idOf("lost"))).kind).to.equal("acquired");
  });

  describe("with a sentinel", () => {
    let sentinel: TestSentinel;

    beforeEach(async () => {
      sentinel = await startSentinel(pair);
    });
    afterEach(async () => {
      await disconnectAll();
      await sentinel.stop();
    });

    it("HA36 goes on at two gates of different clients, and loses nothing that the replica had", async () => {
      const clients = await clientsOf(sentinel);
      const chain = new MeteredChain();
      const idHash = chain.subscribe(1, { cap: CAP });
      const meters = await Promise.all(clients.map((client) => startMeter(meterStore(client), chain)));
      let charged = 0n;
      const charge = (meter: (typeof meters)[number]): Promise<boolean> =>
        meter.reserve(idHash, 1n, chain.facts(idHash)).then(
          (made) => {
            charged += made.charged;
            return true;
          },
          (error) => {
            expect(codeOf(error)).to.equal("Unavailable");
            return false;
          },
        );
      const gates = clients.map((client) => redisClaims(client));
      const ids = gates.map((_, i) => idOf(`gate ${i}`));
      for (const [i, gate] of gates.entries()) {
        const { owner } = await attempt(gate, ids[i] as Hex);
        await gate.apply(ids[i] as Hex, { act: "use", owner });
      }
      for (const meter of meters) expect(await charge(meter)).to.equal(true);
      await pair.caughtUp();
      await pair.master.kill();
      for (const meter of meters) await until(() => charge(meter));
      for (const gate of gates) {
        for (const id of ids) expect((await attempt(gate, id)).kind).to.equal("used");
      }
      await until(
        () =>
          meters[0]?.flush().then(
            () => true,
            () => false,
          ) ?? false,
      );
      expect(chain.sumDebited()).to.equal(charged);
    });
  });
});
