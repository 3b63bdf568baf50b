import { readFileSync } from "node:fs";
import { expect } from "chai";

const { SLOW, SUITES, quickTestFiles, slowTestFiles, testFiles } = require("../../tools/test-files.cjs") as {
  SLOW: Record<string, string[]>;
  SUITES: Record<string, string>;
  quickTestFiles(): string[];
  slowTestFiles(suite: string): string[];
  testFiles(folder: string): string[];
};
const { STAGES } = require("../../tools/deep.cjs") as { STAGES: Record<string, { args: string[] }> };
const atDepth = Object.values(STAGES).map(({ args }) => args.at(-1));
const scripts: Record<string, string> = JSON.parse(readFileSync("package.json", "utf8")).scripts;
const page = readFileSync("docs/engineering/tests.md", "utf8");
const ci = readFileSync(".ci/run", "utf8").split("\n");

describe("agreement > test suites", () => {
  it("run every file in npm test or in one slow suite, which has a script, a line in CI or a stage at depth, and one in the page", () => {
    const slow = Object.keys(SLOW).flatMap(slowTestFiles);
    expect(ci).to.include("npm test");
    expect([...quickTestFiles(), ...slow].sort()).to.deep.equal(testFiles("test").sort());
    for (const [suite, starts] of Object.entries(SLOW)) {
      expect(scripts[`test:${suite}`]).to.equal(`node tools/test.cjs ${suite}`);
      expect(ci.includes(`npm run test:${suite}`) || atDepth.includes(suite), suite).to.equal(true);
      expect(page).to.contain(`| \`npm run test:${suite}\` |`);
      for (const start of starts) {
        expect(
          slow.some((file) => file.startsWith(start)),
          start,
        ).to.equal(true);
      }
    }
  });

  it("that install more are in the page", () => {
    for (const command of Object.values(SUITES)) expect(page).to.contain(`| \`${command}\` |`);
  });
});
