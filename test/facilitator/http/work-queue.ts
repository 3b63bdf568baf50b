import { expect } from "chai";
import { WorkQueue } from "../../../facilitator/src/http/work-queue";

const MAX_AGE_MS = 1_000;
const TURN_MS = 10;
const WORK_MS = 5;

describe("Facilitator: the start of requests' work", () => {
  let nowMs: number;
  let queue: WorkQueue;
  let started: string[];

  beforeEach(() => {
    nowMs = 0;
    started = [];
    queue = new WorkQueue({ maxAgeMs: MAX_AGE_MS, turnMs: TURN_MS, monotonicMs: () => nowMs });
  });

  /** Each takes WORK_MS of the clock. */
  const add = (payer: string, payee = "shop"): boolean =>
    queue.add(
      () => {
        started.push(payer);
        nowMs += WORK_MS;
      },
      () => ({ payer, payee }),
    );
  const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  it("starts a request at once, and no more in a turn than its time allows", async () => {
    for (const payer of ["a", "b", "c", "d", "e"]) expect(add(payer)).to.equal(true);
    expect(started).to.deep.equal(["a", "b"]);
    await nextTurn();
    expect(started).to.deep.equal(["a", "b", "c", "d"]);
    await nextTurn();
    expect(started).to.deep.equal(["a", "b", "c", "d", "e"]);
  });

  it("B14 refuses what would start too late, and admits again once the queue has moved", async () => {
    for (const payer of ["a", "b", "c"]) add(payer);
    nowMs += MAX_AGE_MS;
    expect(add("late")).to.equal(false);
    await nextTurn();
    expect(add("later")).to.equal(true);
  });

  it("B26 refuses a payer that fills the queue before any other payer", () => {
    for (let i = 0; i < 10; i++) add("greedy");
    nowMs += MAX_AGE_MS / 2;
    expect(add("greedy")).to.equal(false);
    expect(add("quiet")).to.equal(true);
  });

  it("B26 refuses the payers of a provider that fills the queue before those of any other", () => {
    for (let i = 0; i < 10; i++) add(`payer ${i}`);
    nowMs += (MAX_AGE_MS * 3) / 4;
    expect(add("late")).to.equal(false);
    expect(add("late", "stall")).to.equal(true);
  });
});
