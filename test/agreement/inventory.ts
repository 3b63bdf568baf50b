import { expect } from "chai";

interface Inventory {
  readonly titles: readonly string[];
  readonly sites: readonly string[];
}
const {
  inventory,
  inventoryOf,
  lost,
}: {
  inventory(): Record<string, Inventory>;
  inventoryOf(file: string, text: string): Inventory;
  lost(before: Record<string, Inventory>, after: Record<string, Inventory>): string[];
} = require("../../tools/inventory.cjs");

// The title as its file has it.
const TEMPLATE = `\`pays \${n}\``;

const TEXT = `
  describe("a gate", () => {
    for (const n of [1, 2])
      it(\`pays \${n}\`, async () => {
        expect(n).to.equal(
          await paid(),
        );
        await expect(refused()).to.be.rejected;
      });
    it.skip("waits", () => void fc.assert(law));
  });`;

describe("agreement > the inventory of tests", () => {
  const before = { "a.ts": inventoryOf("a.ts", TEXT) };

  it("lists titles and whole assertions, however they are laid out", () => {
    expect(before["a.ts"].titles).to.deep.equal(['"a gate"', TEMPLATE, '"waits"']);
    expect(before["a.ts"].sites).to.deep.equal([
      "expect(n).to.equal( await paid())",
      "expect(refused()).to.be.rejected",
      "fc.assert(law)",
    ]);
    const law = 'function testFuzz_sums(uint a) { require(a > 0, "a"); } function invariant_L1() {}';
    expect(inventoryOf("a.sol", law).titles).to.deep.equal(["testFuzz_sums", "invariant_L1"]);
  });

  it("notices what is gone or weaker, and not what has moved", () => {
    expect(lost(before, { "b.ts": before["a.ts"] })).to.deep.equal([]);
    const without = (text: string, by = "") => ({ "a.ts": inventoryOf("a.ts", TEXT.replace(text, by)) });
    expect(lost(before, without("await expect(refused()).to.be.rejected;"))).to.deep.equal([
      "a.ts: expect(refused()).to.be.rejected",
    ]);
    expect(lost(before, without("equal(", "not.equal("))).to.deep.equal(["a.ts: expect(n).to.equal( await paid())"]);
    expect(lost(before, without("waits"))).to.deep.equal(['a.ts: "waits"']);
    // One of two that are the same.
    expect(lost({ ...before, "b.ts": before["a.ts"] }, before)).to.have.length(6);
  });

  it("finds this file", () => {
    expect(inventory()["test/agreement/inventory.ts"]?.titles).to.include('"finds this file"');
  });
});
