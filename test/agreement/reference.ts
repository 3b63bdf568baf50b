import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";

const {
  sdkPages,
  FOLDER,
}: { sdkPages(): Map<string, string>; FOLDER: string } = require("../../tools/sdk-reference.cjs");
const {
  contractsPage,
  PAGE,
}: { contractsPage(): string; PAGE: string } = require("../../tools/contracts-reference.cjs");
const { firstSentence }: { firstSentence(text: string): string } = require("../../tools/reference-text.cjs");

describe("agreement > reference", function () {
  this.timeout(180_000);

  it("docs/reference/sdk is what the types of the SDK give: else run node tools/sdk-reference.cjs", () => {
    const pages = sdkPages();
    expect(readdirSync(FOLDER).sort()).to.deep.equal([...pages.keys()].sort());
    for (const [name, text] of pages) expect(readFileSync(join(FOLDER, name), "utf8"), name).to.equal(text);
  });

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
