import { readFileSync } from "node:fs";
import { expect } from "chai";

interface Patch {
  readonly file: string;
  readonly keep: string;
}
interface Safeguard extends Patch {
  readonly name: string;
  readonly also?: Patch;
  readonly test: string;
  readonly title: string;
}

const { SAFEGUARDS }: { SAFEGUARDS: readonly Safeguard[] } = require("../../tools/safeguards.cjs");

describe("agreement > safeguards", () => {
  for (const { name, test, title, also, ...patch } of SAFEGUARDS) {
    it(`${name}: the code to remove occurs once, and its test exists`, () => {
      for (const { file, keep } of [patch, ...(also ? [also] : [])]) {
        expect(readFileSync(file, "utf8").split(keep), `${file}: ${keep}`).to.have.length(2);
      }
      // Some titles are made of parts.
      const word = title.split('"')[0] ?? title;
      expect(readFileSync(test, "utf8")).to.include(word);
    });
  }
});
