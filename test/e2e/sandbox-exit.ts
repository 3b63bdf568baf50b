import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { RUN_TYPESCRIPT } from "../support/typescript";

const ROOT = path.resolve(__dirname, "../..");

describe("end to end > the sandbox with --exit", function () {
  this.timeout(480_000);
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-sandbox-"));
  after(() => rmSync(folder, { recursive: true, force: true }));

  it("walks every flow and leaves with 0, and nothing behind", async () => {
    const args = ["scripts/sandbox.ts", "--exit", "--port", "0", "--chain-id", "31340", "--folder", folder];
    const child = spawn(process.execPath, [...RUN_TYPESCRIPT, ...args], { cwd: ROOT });
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (text += chunk));
    const output = () => text;
    const [code] = await once(child, "exit");
    expect(code, output()).to.equal(0);
    expect(output()).to.contain("All flows went as they must.").and.contain("Chain 31340");
    expect(readdirSync(folder)).to.deep.equal([]);
  });
});
