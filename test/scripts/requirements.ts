import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";

const { missingRequirement } = require("../../tools/requirements.cjs") as {
  missingRequirement(machine: {
    readonly version: string;
    readonly root: string;
    readonly program?: string;
    readonly written?: readonly string[];
  }): string | undefined;
};
const scripts: Record<string, string> = require("../../package.json").scripts;

describe("what a machine must have", () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(path.join(tmpdir(), "turnpike-requirements-"));
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));
  const install = (...folders: readonly string[]) => {
    for (const folder of folders) mkdirSync(path.join(root, folder), { recursive: true });
  };

  it("names an old Node first", () => {
    expect(missingRequirement({ version: "18.20.8", root })).to.equal(
      "Node 20.19 or later is needed; this is 18.20.8.",
    );
    expect(missingRequirement({ version: "20.18.3", root })).to.match(/^Node 20\.19/);
  });

  it("names packages that are not installed, then contracts that the Facilitator lacks", () => {
    const machine = { version: "20.19.0", root, program: "/clone/facilitator/src/main.ts" };
    expect(missingRequirement(machine)).to.match(/run npm ci in /);
    install("node_modules/esbuild", "node_modules/ts-node");
    expect(missingRequirement(machine)).to.match(/run npx hardhat compile --quiet in /);
    expect(missingRequirement({ ...machine, program: "scripts/sandbox.ts" })).to.equal(undefined);
    install("sdk/src/chain/generated");
    expect(missingRequirement({ ...machine, version: "22.0.0" })).to.equal(undefined);
  });

  it("names a folder of the home that Hardhat cannot write to, to the programs that start it", () => {
    install("node_modules/esbuild", "node_modules/ts-node", "sdk/src/chain/generated");
    writeFileSync(path.join(root, "file"), "");
    const folder = path.join(root, "file/.config/hardhat-nodejs");
    const machine = { version: "20.19.0", root, written: [folder] };
    const said = missingRequirement({ ...machine, program: "/clone/scripts/sandbox.ts" });
    expect(said)
      .to.include(folder)
      .and.to.match(/cannot be written: set HOME, or XDG_CONFIG_HOME, /);
    expect(missingRequirement({ ...machine, program: "/clone/facilitator/src/main.ts" })).to.equal(undefined);
    const made = { ...machine, program: "/clone/scripts/sandbox.ts", written: [path.join(root, "new/.config")] };
    expect(missingRequirement(made)).to.equal(undefined);
  });

  it("is checked by each command of a newcomer before anything is imported", () => {
    for (const name of ["start", "sandbox", "facilitator"]) {
      expect(scripts[name], name).to.match(/node [^r]*-r \.\/tools\/requirements\.cjs -r /);
    }
  });
});
