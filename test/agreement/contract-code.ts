import { readFileSync } from "node:fs";
import { expect } from "chai";

const tool: { text(): string; FILE: string } = require("../../facilitator/tools/contract-code.cjs");

describe("agreement > contract code", () => {
  it("the Facilitator knows the compiled contracts by their hash", () => {
    const remedy = "the contracts have changed: run node facilitator/tools/contract-code.cjs";
    expect(JSON.parse(readFileSync(tool.FILE, "utf8")), remedy).to.deep.equal(JSON.parse(tool.text()));
  });
});
