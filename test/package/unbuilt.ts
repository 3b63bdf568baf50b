import { readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { type FreshClone, finished, freshClone, ROOT } from "../support/fresh-clone";

const suites: { quickTestFiles(folder: string): string[]; SLOW: object; SUITES: Record<string, string> } =
  require("../../tools/test-files.cjs");

describe("a checkout after npm ci", function () {
  this.timeout(1_200_000);
  let clone: FreshClone | undefined;
  after(() => clone?.remove());

  it("HB0 loads the files of `npm test` in one process of `npx hardhat test`, and names the suites", async () => {
    const hardhat = (args: readonly string[], env = {}) => finished("npx", ["hardhat", "test", ...args], ROOT, env);
    const { code, stdout, stderr } = await hardhat([], { TEST_DRY_RUN: "1" });
    expect(code, stdout.slice(-4_000) + stderr).to.equal(0);
    const commands = [
      ...Object.values(suites.SUITES),
      ...Object.keys(suites.SLOW).map((name) => `npm run test:${name}`),
    ];
    for (const command of commands) expect(stdout).to.contain(command);
    expect(stdout).to.contain("amounts").and.not.contain("end to end > the sandbox");
    const listed = suites.quickTestFiles("test");
    expect(listed).to.include("test/sdk/protocol/amounts.ts").and.not.include("test/e2e/sandbox.ts");

    const named = await hardhat(["--no-compile", "test/sdk/protocol/amounts.ts"]);
    expect(named.code, named.stdout + named.stderr).to.equal(0);
    expect(named.stdout)
      .to.match(/^ {2}\d+ passing/m)
      .and.not.contain("npm run test:");
  });

  it("HB1 a package that cannot be built is not packed", async () => {
    clone = await freshClone();
    writeFileSync(path.join(clone.folder, "sdk/src/index.ts"), 'export * from "./missing";\n');
    // The contracts are no part of this question, and compiling them takes most of the time.
    writeFileSync(path.join(clone.folder, "hardhat.config.ts"), 'export default { solidity: "0.8.37" };\n');
    rmSync(path.join(clone.folder, "contracts"), { recursive: true });
    const { code, stdout } = await clone.run("npm", ["pack", "-w", "sdk", "--json"]);
    expect(code, stdout).to.not.equal(0);
    expect(readdirSync(clone.folder).filter((file) => file.endsWith(".tgz"))).to.deep.equal([]);
  });
});
