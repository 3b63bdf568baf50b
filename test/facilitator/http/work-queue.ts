import { expect } from "chai";
import { WorkQueue } from "../../../facilitator/src/http/work-queue";

const MAX_WAITING = 40;
const MAX_AGE_MS = 1_000;
const DEADLINE_MS = 2_000;
const TURN_MS = 10;
const MAX_TURN_MS = 20;
const WORK_MS = 5;

describe("Facilitator: the start of requests' work", () => {
  let nowMs: number;
  let cpuMs: number;
  let queue: WorkQueue;
  let started: string[];
  let refused: string[];

  beforeEach(() => {
    nowMs = 0;
    cpuMs = 0;
    started = [];
    refused = [];
    queue = new WorkQueue({
      maxWaiting: MAX_WAITING,
      maxAgeMs: MAX_AGE_MS,
      deadlineMs: DEADLINE_MS,
      turnCpuMs: TURN_MS,
      maxTurnCpuMs: MAX_TURN_MS,
      cpuMs: () => cpuMs,
      monotonicMs: () => nowMs,
    });
  });

  /** Each takes WORK_MS, and needs the processor for all of it. */
  const add = (payer: string, payee = "shop"): void =>
    queue.add({
      partyOf: () => ({ payer, payee }),
      start(waitedMs) {
        started.push(waitedMs === 0 ? payer : `${payer} after ${waitedMs}`);
        nowMs += WORK_MS;
        cpuMs += WORK_MS;
      },
      refuse: () => refused.push(payer),
    });
  const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  it("starts a request at once, no more in a turn than its time allows, and says how long each waited", async () => {
    for (const payer of ["a", "b", "c", "d", "e"]) add(payer);
    expect(started).to.deep.equal(["a", "b"]);
    nowMs += 4;
    await nextTurn();
    expect(started.slice(2)).to.deep.equal(["c after 4", "d after 9"]);
    await nextTurn();
    expect(started.slice(4)).to.deep.equal(["e after 14"]);
    expect(refused).to.deep.equal([]);
  });

  it("B14 starts work for as long as all else in a turn takes, up to a bound", async () => {
    for (let i = 0; i < 12; i++) add(`payer ${i}`);
    expect(started).to.have.length(2);
    cpuMs += 15;
    await nextTurn();
    expect(started).to.have.length(2 + 3);
    cpuMs += 900;
    await nextTurn();
    expect(started).to.have.length(2 + 3 + 4);
    // While others have the processor, nothing is done.
    nowMs += 900;
    await nextTurn();
    expect(started).to.have.length(2 + 3 + 4 + 2);
  });

  it("B14 refuses at once what arrives while the oldest has waited too long, and admits again afterwards", async () => {
    for (const payer of ["a", "b", "c"]) add(payer);
    nowMs += MAX_AGE_MS;
    add("late");
    expect(refused).to.deep.equal(["late"]);
    await nextTurn();
    add("later");
    expect(refused).to.deep.equal(["late"]);
  });

  it("B14 refuses what would start too late, instead of starting it", async () => {
    for (const payer of ["a", "b", "c"]) add(payer);
    nowMs += DEADLINE_MS + 1;
    await nextTurn();
    expect(started).to.deep.equal(["a", "b"]);
    expect(refused).to.deep.equal(["c"]);
  });

  it("B14 refuses at once what finds no place", () => {
    for (let i = 0; i < MAX_WAITING + 2; i++) {
      expect(queue.isFull).to.equal(false);
      add(`payer ${i}`, `provider ${i}`);
    }
    expect(queue.isFull).to.equal(true);
    add(`payer ${MAX_WAITING + 2}`, "any");
    expect(refused).to.deep.equal([`payer ${MAX_WAITING + 2}`]);
  });

  it("B26 refuses a payer that fills the queue before any other payer", () => {
    for (let i = 0; i < 10; i++) add("greedy");
    nowMs += MAX_AGE_MS / 2;
    add("greedy");
    add("quiet");
    expect(refused).to.deep.equal(["greedy"]);
  });

  it("B26 refuses the payers of a provider that fills the queue before those of any other", () => {
    for (let i = 0; i < 10; i++) add(`payer ${i}`);
    nowMs += (MAX_AGE_MS * 3) / 4;
    add("late at the shop");
    add("late at the stall", "stall");
    expect(refused).to.deep.equal(["late at the shop"]);
  });
});
