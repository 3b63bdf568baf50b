import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { RUN_TYPESCRIPT } from "../../../support/typescript";

const ROOT = path.resolve(__dirname, "../../../..");
const SCRIPT = path.join(ROOT, "test/sdk/gate/support/receipt-process.ts");

describe("The numbers of usage receipts and kill -9", function () {
  this.timeout(120_000);
  let folder: string;

  before(() => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-numbers-"));
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  /** Runs until so many receipts were numbered, and is killed then. @returns what it printed, line by line */
  async function life(receipts: number): Promise<string[]> {
    const child = spawn(process.execPath, [...RUN_TYPESCRIPT, SCRIPT, path.join(folder, "journal")], { cwd: ROOT });
    let [text, errors] = ["", ""];
    child.stderr.on("data", (chunk) => {
      errors += chunk;
    });
    child.stdout.on("data", (chunk) => {
      text += chunk;
      if (text.split("\n").length > receipts) child.kill("SIGKILL");
    });
    await once(child, "close");
    expect(errors).to.equal("");
    return text.split("\n").slice(0, -1);
  }

  it("UR3 no number is given twice, and every sum contains what was charged before the kill", async () => {
    let last = 0;
    for (const receipts of [1, 40, 300]) {
      const lines = await life(receipts);
      expect(lines.length).to.be.greaterThanOrEqual(receipts);
      const numbers = lines.map((line) => Number(line.split(" ")[0]));
      expect(Math.min(...numbers), "after all that were handed out").to.be.greaterThan(last);
      expect(new Set(numbers).size).to.equal(numbers.length);
      for (const line of lines) {
        const [sequence, total] = line.split(" ").map(Number);
        expect(total, "the sum of all before it").to.equal(3 * (sequence ?? 0));
      }
      last = Math.max(...numbers);
    }
  });
});
