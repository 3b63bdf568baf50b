import { expect } from "chai";
import { BoundedMap } from "../../../sdk/src/protocol/bounded-map";
import { atMost, Deadline, deferred } from "../../../sdk/src/protocol/exchange";

const nextAbort = (signal: AbortSignal): Promise<unknown> =>
  new Promise((resolve) => signal.addEventListener("abort", () => resolve(signal.reason), { once: true }));

describe("waiting", () => {
  it("aborts at the deadline, as a time-out", async () => {
    const deadline = new Deadline(10);
    expect(await nextAbort(deadline.signal)).to.include({ name: "TimeoutError" });
    expect(deadline.isOver).to.equal(true);
  });

  it("aborts with the caller's signal, which is no time-out", async () => {
    const caller = new AbortController();
    const deadline = new Deadline(60_000, caller.signal);
    const aborted = nextAbort(deadline.signal);
    caller.abort(new Error("enough"));
    expect(await aborted).to.include({ message: "enough" });
    expect(deadline.isOver).to.equal(false);
    deadline.end();
  });

  it("never aborts what has ended", async () => {
    const deadline = new Deadline(10);
    deadline.end();
    await new Promise((resolve) => setTimeout(resolve, 40));
    expect(deadline.signal.aborted).to.equal(false);
  });

  it("returns an answer in time, its error, or what is made when it is late", async () => {
    const answer = deferred<number>();
    const late = atMost(5, answer.promise, () => "late");
    expect(await late).to.equal("late");
    answer.resolve(7);
    expect(await atMost(60_000, answer.promise, () => "late")).to.equal(7);
    const failed = await atMost(60_000, Promise.reject(new Error("down")), () => "late").catch(
      (error) => error.message,
    );
    expect(failed).to.equal("down");
  });

  it("empties a bounded map that is full, and keeps what comes then", () => {
    const map = new BoundedMap<string, number>(2);
    for (const [index, name] of ["a", "b", "c"].entries()) map.set(name, index);
    expect([...map]).to.deep.equal([["c", 2]]);
  });
});
