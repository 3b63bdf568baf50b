import { expect } from "chai";
import type { Hex } from "turnpike/protocol";
import { until } from "../../../support/subscriptions";
import { codeOf, meterBeforeEach } from "../support/meter-world";

const HOUR_MS = 3_600_000;

describe("Metering: a signup that a reorganisation removes", () => {
  const worldOf = meterBeforeEach();

  /** A subscription that owes 50 and is on the chain no more, and how often its state was read. */
  async function removed(): Promise<{ idHash: Hex; reads: () => number }> {
    const world = worldOf();
    let reads = 0;
    const { read, ...states } = world.chain.states;
    await world.start({
      states: {
        ...states,
        read: async (idHashes) => {
          reads++;
          return read(idHashes);
        },
      },
    });
    const idHash = world.chain.subscribe(1);
    await world.meter.reserve(idHash, 50n, world.chain.facts(idHash));
    world.chain.of(idHash).status = "NONE";
    return { idHash, reads: () => reads };
  }

  /** Lets an hour pass, and the meter with it. */
  async function pass(reads: () => number): Promise<void> {
    const world = worldOf();
    const before = reads();
    world.nowMs += HOUR_MS;
    await until(() => reads() > before);
  }

  const reportOf = (idHash: Hex) =>
    worldOf()
      .meter.unsettled()
      .subscriptions.find((one) => one.idHash === idHash);

  /** Ends the retries. */
  async function ended() {
    const world = worldOf();
    const { idHash, reads } = await removed();
    await world.meter.flush();
    world.chain.finalized = world.chain.block;
    await pass(reads);
    await until(() => reportOf(idHash)?.blocked === "UnknownSubscription");
    return { idHash, reads };
  }

  it("A28 B8 goes on trying its debit while no finalised block shows that it is gone", async () => {
    const world = worldOf();
    const { idHash, reads } = await removed();
    await world.meter.flush();
    world.chain.finalized = world.chain.block - 1;
    for (let hour = 0; hour < 5; hour++) await pass(reads);
    expect(reportOf(idHash)).to.deep.include({ pending: 50n, blocked: undefined });
    world.chain.of(idHash).status = "ACTIVE";
    world.nowMs += HOUR_MS;
    await until(() => world.chain.sumDebited() === 50n);
  });

  it("A28 B8 ends the retries once a finalised block shows it, and reports why", async () => {
    const world = worldOf();
    const { idHash, reads } = await ended();
    expect(world.events).to.deep.include({ kind: "blocked", idHash, reason: "UnknownSubscription" });
    const before = reads();
    for (let hour = 0; hour < 5; hour++) {
      world.nowMs += HOUR_MS;
      // A debit of another subscription shows that the meter has judged what was due.
      const other = world.chain.subscribe(2 + hour);
      await world.meter.reserve(other, 1n, world.chain.facts(other));
      world.nowMs += HOUR_MS;
      await until(() => world.chain.sumDebited(other) === 1n);
    }
    expect(reads() - before, "reads for the others").to.equal(5);
    expect(reportOf(idHash)).to.deep.include({ pending: 50n, blocked: "UnknownSubscription", lost: 0n });
    expect(world.events.filter(({ kind }) => kind === "blocked")).to.have.length(1);
  });

  it("A28 B8 debits it when a new block has the signup again", async () => {
    const world = worldOf();
    const { idHash } = await ended();
    world.chain.of(idHash).status = "ACTIVE";
    world.nowMs += 2_000;
    world.meter.onBlocks(new Set([idHash]));
    // The report follows the debit.
    await until(() => world.events.some(({ kind }) => kind === "unblocked"));
    expect(world.chain.sumDebited()).to.equal(50n);
    expect(world.events).to.deep.include({ kind: "unblocked", idHash });
    expect(reportOf(idHash)?.blocked).to.equal(undefined);
  });

  it("A28 B8 serves its next request once it is mined again, and debits both", async () => {
    const world = worldOf();
    const { idHash } = await ended();
    world.chain.of(idHash).status = "ACTIVE";
    expect(world.meter.isBlocked(idHash), "money is not what it lacks").to.equal(false);
    world.nowMs += 2_000;
    expect(await codeOf(world.meter.reserve(idHash, 7n, world.chain.facts(idHash)))).to.equal("fulfilled");
    await until(() => world.chain.sumDebited() === 57n);
  });
});
