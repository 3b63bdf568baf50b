import { expect } from "chai";

const { threats } = require("../../tools/threats.cjs") as { threats(): ReadonlyMap<string, readonly string[]> };

/** How many attacks, faults and laws of each series have a test. */
const SERIES = { A: 37, B: 27, C: 30, D: 24, HA: 27, L: 34 };

describe("agreement > threats", () => {
  it("each series of attacks, faults and laws keeps its tests", () => {
    const listed = threats();
    expect(listed.size).to.be.at.least(400);
    for (const [series, least] of Object.entries(SERIES)) {
      const ids = [...listed.keys()].filter((id) => id.replace(/\d+b?$/, "") === series);
      expect(ids.length, series).to.be.at.least(least);
    }
  });

  it("a row names the file and the title of each test", () => {
    expect(threats().get("L1")).to.deep.include(
      "test/laws/Laws.t.sol: Turnpike and BatchSettler never receive tokens by their own calls.",
    );
  });
});
