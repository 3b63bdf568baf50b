import { readFileSync } from "node:fs";
import { expect } from "chai";

const {
  contractsPage,
  PAGE,
}: { contractsPage(): string; PAGE: string } = require("../../tools/contracts-reference.cjs");
const { firstSentence }: { firstSentence(text: string): string } = require("../../tools/reference-text.cjs");

describe("agreement > reference", function () {
  this.timeout(180_000);

  it("docs/reference/contracts.md is what the compiled contracts give: else run node tools/contracts-reference.cjs", () => {
    expect(readFileSync(PAGE, "utf8")).to.equal(contractsPage());
  });

  it("a first sentence ends at its full stop, not within a name, a number or an abbreviation", () => {
    expect(firstSentence("Reads `a.b`, e.g. 1.5 of\nit. Then more.")).to.equal("Reads `a.b`, e.g. 1.5 of it.");
    expect(firstSentence("Call `f({ a, ... })` now. Later.")).to.equal("Call `f({ a, ... })` now.");
    expect(firstSentence("One (a sentence.) Two.")).to.equal("One (a sentence.)");
    expect(firstSentence("no full stop")).to.equal("no full stop");
  });
});
