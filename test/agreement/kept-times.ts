import { readFileSync } from "node:fs";
import { expect } from "chai";

interface Line {
  readonly file: string;
  readonly seconds: number;
  readonly cpu: number;
}
interface Run {
  readonly budget?: number;
  readonly cpu: number;
  readonly files: Record<string, { readonly seconds: number; readonly cpu: number }>;
}
const {
  grown,
  overBudget,
  summary,
}: {
  grown(now: Run, before: Run): { file: string }[];
  overBudget(suite: string, now: Run, before: Partial<Run> | undefined): string | undefined;
  summary(lines: readonly Line[], seconds: number): Run;
} = require("../../tools/kept-times.cjs");
const { SLOW, SUITES }: { SLOW: object; SUITES: object } = require("../../tools/test-files.cjs");

describe("agreement > the times of test suites", () => {
  const before = summary(
    [
      { file: "a.ts", seconds: 9, cpu: 5.04 },
      { file: "b.ts", seconds: 9, cpu: 50 },
    ],
    20,
  );
  const now = summary(
    [
      { file: "a.ts", seconds: 9, cpu: 9 },
      { file: "b.ts", seconds: 9, cpu: 55 },
      { file: "c.ts", seconds: 9, cpu: 30 },
    ],
    20,
  );

  it("sum up every file", () => {
    expect(before).to.deep.equal({
      seconds: 20,
      cpu: 55,
      files: { "a.ts": { seconds: 9, cpu: 5 }, "b.ts": { seconds: 9, cpu: 50 } },
    });
  });

  it("list what grew, new files too, and not what differs from run to run", () => {
    expect(grown(now, before).map(({ file }) => file)).to.deep.equal(["c.ts", "a.ts"]);
    expect(grown(before, before)).to.deep.equal([]);
  });

  it("fail a suite over its budget, with the files that grew", () => {
    expect(overBudget("quick", now, { ...before, budget: 93 })).to.contain("c.ts a.ts");
    expect(overBudget("quick", now, { ...before, budget: 94 })).to.equal(undefined);
    expect(overBudget("quick", now, undefined)).to.equal(undefined);
  });

  it("have a budget for each suite", () => {
    const budgets: Record<string, Partial<Run>> = JSON.parse(readFileSync("tools/test-times.json", "utf8"));
    // The image is built by a command of its own.
    const installing = Object.keys(SUITES).filter((suite) => suite !== "image");
    expect(Object.keys(budgets).sort()).to.deep.equal(["quick", ...Object.keys(SLOW), ...installing].sort());
    for (const [suite, { budget }] of Object.entries(budgets)) expect(budget, suite).to.be.greaterThan(0);
  });
});
