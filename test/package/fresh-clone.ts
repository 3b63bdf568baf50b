import { readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { type FreshClone, freshClone } from "../support/fresh-clone";
import { emptyProject } from "./support/packed";

const suites: { quickTestFiles(folder: string): string[]; SLOW: object; SUITES: Record<string, string> } =
  require("../../tools/test-files.cjs");

describe("a fresh clone after npm ci", function () {
  this.timeout(1_200_000);
  const clones: FreshClone[] = [];
  const made = async (): Promise<FreshClone> => {
    const clone = await freshClone();
    clones.push(clone);
    return clone;
  };
  /** for what changes no source: packing comes first, where nothing is compiled yet */
  let shared: Promise<FreshClone> | undefined;
  const whole = (): Promise<FreshClone> => (shared ??= made());
  after(() => {
    for (const clone of clones) clone.remove();
  });

  it("HB1 packs a built package from its folder and from the root, which an empty project imports as ESM and CommonJS", async () => {
    const clone = await whole();
    for (const [cwd, args] of [
      ["sdk", []],
      [".", ["-w", "sdk"]],
    ] as const) {
      const at = path.join(clone.folder, cwd);
      const { code, stdout, stderr } = await clone.run("npm", ["pack", "--json", ...args], {}, at);
      expect(code, stdout + stderr).to.equal(0);
      const [packed] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
      const files = packed.files.map((file) => file.path);
      expect(files).to.include.members([
        "dist/index.js",
        "dist/index.mjs",
        "dist/index.d.ts",
        "dist/gate/next.mjs",
        "docs/index.html",
      ]);
      const project = await emptyProject({ file: path.join(at, packed.filename), files });
      try {
        expect(await project.run("plain.mjs")).to.equal("esm 0.50\n");
        expect(await project.run("plain.cjs")).to.match(/^cjs 0x[0-9a-fA-F]{40}\n$/);
      } finally {
        await project.remove();
      }
    }
  });

  it("HB0 loads the files of `npm test` in one process of `npx hardhat test`, and names the suites", async () => {
    const clone = await whole();
    const { code, stdout, stderr } = await clone.run("npx", ["hardhat", "test"], { TEST_DRY_RUN: "1" });
    expect(code, stdout.slice(-4_000) + stderr).to.equal(0);
    const commands = [
      ...Object.values(suites.SUITES),
      ...Object.keys(suites.SLOW).map((name) => `npm run test:${name}`),
    ];
    for (const command of commands) expect(stdout).to.contain(command);
    expect(stdout).to.contain("amounts").and.not.contain("end to end > the sandbox");
    const listed = suites.quickTestFiles("test");
    expect(listed).to.include("test/sdk/protocol/amounts.ts").and.not.include("test/e2e/sandbox.ts");

    const named = await clone.run("npx", ["hardhat", "test", "--no-compile", "test/sdk/protocol/amounts.ts"]);
    expect(named.code, named.stdout + named.stderr).to.equal(0);
    expect(named.stdout)
      .to.match(/^ {2}\d+ passing/m)
      .and.not.contain("npm run test:");
  });

  it("HB1 a package that cannot be built is not packed", async () => {
    const clone = await made();
    writeFileSync(path.join(clone.folder, "sdk/src/index.ts"), 'export * from "./missing";\n');
    // The contracts are no part of this question, and compiling them takes most of the time.
    writeFileSync(path.join(clone.folder, "hardhat.config.ts"), 'export default { solidity: "0.8.37" };\n');
    rmSync(path.join(clone.folder, "contracts"), { recursive: true });
    const { code, stdout } = await clone.run("npm", ["pack", "-w", "sdk", "--json"]);
    expect(code, stdout).to.not.equal(0);
    expect(readdirSync(clone.folder).filter((file) => file.endsWith(".tgz"))).to.deep.equal([]);
  });
});
