import { expect } from "chai";
import { type ActiveSpan, activeSpan, withinSpan } from "../../../facilitator/src/lib/active-span";
import { coalesce } from "../../../facilitator/src/lib/coalesce";

const NEVER_MS = 3_600_000;

/** A promise that resolves when `open` is called. */
function latch(): { readonly opened: Promise<boolean>; open(isReady: boolean): void } {
  let open: (isReady: boolean) => void = () => undefined;
  const opened = new Promise<boolean>((resolve) => {
    open = resolve;
  });
  return { opened, open: (isReady) => open(isReady) };
}

describe("questions that are asked together", function () {
  // What is lost here is never answered.
  this.timeout(10_000);

  it("leave with the batch that gets ready when they come, and not with one of their own", async () => {
    const gate = latch();
    const batches: { readonly questions: readonly number[]; readonly isReady: boolean }[] = [];
    const begun = latch();
    const ask = coalesce<number, number>({
      maxItems: 10,
      maxParallel: 2,
      ready(first) {
        expect(first).to.deep.equal([1]);
        begun.open(true);
        return gate.opened;
      },
      async run(questions, isReady) {
        batches.push({ questions, isReady });
        return questions.map((question) => question * 2);
      },
    });
    const early = ask(1);
    await begun.opened;
    const late = [ask(2), ask(3)];
    gate.open(false);
    expect(await Promise.all([early, ...late])).to.deep.equal([2, 4, 6]);
    expect(batches).to.deep.equal([{ questions: [1, 2, 3], isReady: false }]);
  });

  it("do not wait for the pace once they fill a batch", async () => {
    const batches: number[][] = [];
    const ask = coalesce<number, number>({
      maxItems: 3,
      maxParallel: 2,
      gatherMs: () => NEVER_MS,
      async run(questions) {
        batches.push([...questions]);
        return questions;
      },
    });
    await ask(1);
    const two = [ask(2), ask(3)];
    // These two wait until a third one arrives.
    expect(await Promise.all([...two, ask(4)])).to.deep.equal([2, 3, 4]);
    expect(batches).to.deep.equal([[1], [2, 3, 4]]);
  });

  it("all fail with what kept their batch from getting ready, and those after them are asked", async () => {
    let looks = 0;
    const ask = coalesce<number, number>({
      maxItems: 10,
      maxParallel: 1,
      async ready() {
        if (looks++ === 0) throw new Error("the database is away");
        return true;
      },
      run: async (questions) => questions,
    });
    const lost = await Promise.allSettled([ask(1), ask(2)]);
    const reasons = lost.map((answer) => answer.status === "rejected" && answer.reason.message);
    expect(reasons).to.deep.equal(["the database is away", "the database is away"]);
    expect(await ask(3)).to.equal(3);
  });

  it("are part of the span of the first that has one, and the others link to it", async () => {
    const linked: string[] = [];
    const spanOf = (name: string): ActiveSpan & { readonly name: string } => ({
      name,
      begin: () => () => undefined,
      linkTo: (other) => void linked.push(`${name} to ${(other as unknown as { name: string }).name}`),
    });
    const during: unknown[] = [];
    const ask = coalesce<number, number>({
      maxItems: 2,
      maxParallel: 1,
      async run(questions) {
        during.push((activeSpan() as { name?: string } | undefined)?.name);
        return questions;
      },
    });
    const [one, two] = [spanOf("one"), spanOf("two")];
    // The second batch begins when the first one ends: it is no part of the first one's span.
    await Promise.all([
      withinSpan(one, () => ask(1)),
      withinSpan(two, () => ask(2)),
      ask(3),
      withinSpan(two, () => ask(4)),
      ask(5),
    ]);
    expect(during).to.deep.equal(["one", "two", undefined]);
    expect(linked).to.deep.equal(["two to one"]);
  });
});
