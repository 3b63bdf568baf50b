/** What `npm publish` would say of both packages, without a registry. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";

const exec = promisify(execFile);
const ROOT = join(__dirname, "../..");
/** Nothing listens there: a dry run needs no registry. */
const REGISTRY = "http://127.0.0.1:9/";
/** It would be in CI too: the owner's account is not there. */
const NOT_LOGGED_IN = /requires you to be logged in/;
/** npm looks for it before it builds the package. */
const BUILT_LATER = /No bin file found at (\S+)/;

describe("the packages as npm would publish them", function () {
  this.timeout(600_000);

  for (const [workspace, name] of [
    ["sdk", "turnpike"],
    ["facilitator", "turnpike-facilitator"],
  ] as const) {
    it(`${name}: npm publish --dry-run has nothing to correct`, async () => {
      const args = ["publish", "--dry-run", "--json", "--workspace", workspace, "--registry", REGISTRY];
      const { stdout, stderr } = await exec("npm", args, { cwd: ROOT, maxBuffer: 16 * 1_024 * 1_024 });
      expect(stdout).to.contain(`"name": "${name}"`);
      const findings = stderr
        .split("\n")
        .filter((line) => /^npm (?:warn|error)/.test(line) && !NOT_LOGGED_IN.test(line))
        .filter((line) => !stdout.includes(`"path": "${BUILT_LATER.exec(line)?.[1]}"`));
      expect(findings).to.deep.equal([]);
      expect(stdout.includes('"path": "docs/index.html"')).to.equal(name === "turnpike");
    });
  }
});
