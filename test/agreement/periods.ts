import { readFileSync, writeFileSync } from "node:fs";
import { expect } from "chai";
import { periodsText } from "./support/periods";

const FILE = "docs/reference/vectors/periods.json";

// What any client computes calendar periods from. test/contracts/calendar.ts compares the contracts with the same file.
describe("agreement > docs/reference/vectors/periods.json", () => {
  before(() => {
    if (process.env.TURNPIKE_WRITE_VECTORS === "1") writeFileSync(FILE, periodsText());
  });

  it("holds what JavaScript's calendar makes: else run this test with TURNPIKE_WRITE_VECTORS=1", () => {
    expect(readFileSync(FILE, "utf8")).to.equal(periodsText());
  });

  it("covers 1970 to 2200 with every month's end, leap day, anchor and length that it should", () => {
    const { rows, chains } = JSON.parse(readFileSync(FILE, "utf8")) as {
      rows: number[][];
      chains: { start: number; months: number; ends: number[] }[];
    };
    const years = new Set(rows.map(([start = 0]) => new Date(start * 1_000).getUTCFullYear()));
    expect(years.size).to.equal(230);
    for (const anchor of [28, 29, 30, 31]) expect(rows.some((row) => row[4] === anchor)).to.equal(true);
    for (const months of [1, 2, 12, 1_200]) expect(rows.some((row) => row[1] === months)).to.equal(true);
    expect(chains[0]?.ends).to.have.length(231 * 12 - 1);
    expect(new Date((chains[0]?.ends.at(-1) ?? 0) * 1_000).toISOString()).to.equal("2200-12-31T12:34:56.000Z");
  });
});
