import { readFileSync } from "node:fs";
import { expect } from "chai";

const { missingFrom }: { missingFrom(packages: unknown): unknown[] } = require("../../tools/complete-lock.cjs");

describe("agreement > package-lock.json", () => {
  it("locks the builds of every platform, without which npm ci refuses it: else run node tools/complete-lock.cjs", () => {
    const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));
    expect(missingFrom(packages)).to.deep.equal([]);
  });
});
