import { expect } from "chai";
import { Unavailable } from "turnpike/protocol";
import { BoundedMap } from "../../../sdk/src/protocol/bounded-map";
import { atMost, Deadline, deferred, keptCall, sharedCall } from "../../../sdk/src/protocol/exchange";

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

  it("shares a call that is under way, and its failure, and asks again after it", async () => {
    const calls: ReturnType<typeof deferred<number>>[] = [];
    const ask = sharedCall(60_000, () => {
      const call = deferred<number>();
      calls.push(call);
      return call.promise;
    });
    const both = Promise.all([ask(), ask()]);
    calls[0]?.resolve(7);
    expect(await both).to.deep.equal([7, 7]);
    const failing = Promise.allSettled([ask(), ask(), ask()]);
    calls[1]?.reject(new Unavailable("down"));
    expect((await failing).map(({ status }) => status)).to.deep.equal(Array(3).fill("rejected"));
    const last = ask();
    calls[2]?.resolve(8);
    expect([await last, calls.length]).to.deep.equal([8, 3]);
  });

  for (const [how, end] of [
    ["never settles", () => undefined],
    ["rejects for another request", (call: ReturnType<typeof deferred<number>>) => call.reject(new Error("ended"))],
  ] as const) {
    it(`asks again for all who share a call that ${how}, as where its request has ended`, async () => {
      let asked = 0;
      const lost = deferred<number>();
      const ask = sharedCall(20, () => (++asked === 1 ? lost.promise : Promise.resolve(asked)));
      void ask().catch(() => undefined);
      const others = Promise.all([ask(), ask()]);
      end(lost);
      for (const answer of await others) expect(answer).to.be.within(2, 3);
      expect(await ask()).to.equal(asked);
    });
  }

  it("keeps an answer, and asks again after a failure alone", async () => {
    let asked = 0;
    const ask = keptCall(60_000, async () => {
      if (++asked === 1) throw new Unavailable("down");
      return asked;
    });
    expect(await ask().catch(({ code }) => code)).to.equal("Unavailable");
    expect([await ask(), await ask(), asked]).to.deep.equal([2, 2, 2]);
  });

  it("empties a bounded map that is full, and keeps what comes then", () => {
    const map = new BoundedMap<string, number>(2);
    for (const [index, name] of ["a", "b", "c"].entries()) map.set(name, index);
    expect([...map]).to.deep.equal([["c", 2]]);
  });
});
