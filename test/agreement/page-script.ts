import { readFileSync } from "node:fs";
import { expect } from "chai";

const { FILE, bundledModule }: { FILE: string; bundledModule(): string } = require("../../tools/page-script.cjs");

describe("agreement > the payment page's script", () => {
  it("is bundled from its sources: `node tools/page-script.cjs` writes it", () => {
    expect(readFileSync(FILE, "utf8")).to.equal(bundledModule());
  });
});
