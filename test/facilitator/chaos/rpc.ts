import { expect } from "chai";
import { usePostgresWorld } from "../support/postgres-world";
import { liveThrough } from "./support/case";
import { allFaults, isLie, randomOf, shuffled } from "./support/faults";
import type { Fault } from "./support/rpc";

/** CHAOS_SEED has a run again; CHAOS_LIES, CHAOS_OUTAGES and CHAOS_PAIRS say how many are tried, CHAOS_ONLY which. */
const SEED = Number(process.env.CHAOS_SEED ?? Date.now() % 1_000_000);
const LIES = Number(process.env.CHAOS_LIES ?? 4);
const OUTAGES = Number(process.env.CHAOS_OUTAGES ?? 3);
const PAIRS = Number(process.env.CHAOS_PAIRS ?? 2);
/** Tried each time: lies that a service has accepted. */
const ALWAYS = [
  "logs: invented",
  "head: far ahead",
  "head: ahead of its time",
  "receipt: in a block to come",
  "call: no data",
];
const ONLY = process.env.CHAOS_ONLY;
const AT_ONCE = 4;
/** Each case reads every block: on a busy machine they are to keep up with the chain, all at once. */
const BLOCK_MS = 500;

describe(`payments through a node that lies and fails (CHAOS_SEED=${SEED})`, function () {
  this.timeout(3_600_000);
  // A generator for each test: what one draws while it runs must not change what the next one tries.
  const randomFor = (test: number) => randomOf(SEED * 3 + test);
  const chaos = usePostgresWorld({ blockMs: BLOCK_MS });

  async function each(sets: readonly (readonly Fault[])[]): Promise<void> {
    if (ONLY) expect(sets, `no fault is named ${ONLY}`).not.to.have.length(0);
    const left = [...sets];
    const failures: string[] = [];
    let struck = 0;
    const work = async (): Promise<void> => {
      for (let faults = left.shift(); faults; faults = left.shift()) {
        const names = faults.map(({ name }) => name).join(" and ");
        try {
          if ((await liveThrough(chaos, faults)) > 0) struck += 1;
        } catch (error) {
          failures.push(`${names}: ${error instanceof Error ? error.message : error}`);
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    expect(failures, `under CHAOS_SEED=${SEED}`).to.deep.equal([]);
    if (sets.length > 0) expect(struck, "of the faults were met at all").to.be.greaterThan(0);
  }

  const chosen = (faults: Fault[]): Fault[] => (ONLY ? faults.filter(({ name }) => name.includes(ONLY)) : faults);

  it("S4 B9 each lie alone: no proof that the chain does not hold, and all is well after it", () => {
    const random = randomFor(0);
    const lies = shuffled(allFaults(random).filter(isLie), random);
    const some = lies.filter(({ name }) => !ALWAYS.includes(name)).slice(0, LIES);
    const tried = ONLY ? chosen(lies) : [...lies.filter(({ name }) => ALWAYS.includes(name)), ...some];
    return each(tried.map((fault) => [fault]));
  });

  it("S4 B7 B9 outages of each kind of question, some of them each time: nothing is lost or doubled", () => {
    const random = randomFor(1);
    const outages = shuffled(
      allFaults(random).filter((fault) => !isLie(fault)),
      random,
    );
    return each(chosen(outages.slice(0, OUTAGES)).map((fault) => [fault]));
  });

  it("S4 two faults at once, drawn by chance", () => {
    const random = randomFor(2);
    const drawn = Array.from({ length: PAIRS }, () => shuffled(allFaults(random), random).slice(0, 2));
    return each(drawn.filter((pair) => !ONLY || pair.some(({ name }) => name.includes(ONLY))));
  });
});
