/** What tools/typescript.cjs keeps of a file must not outlive the file's text. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { RUN_TYPESCRIPT } from "../support/typescript";

describe("the TypeScript loader", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-loader-"));
  after(() => rmSync(folder, { recursive: true, force: true }));

  it("runs what a file says now, and names its lines, whether it was compiled before or not", () => {
    const file = path.join(folder, "program.ts");
    const run = (text: string): string => {
      writeFileSync(file, text);
      return execFileSync(process.execPath, [...RUN_TYPESCRIPT, file], { encoding: "utf8" });
    };
    const saying = (what: string) =>
      `interface Unused {\n  a: 1;\n}\nconsole.log("${what}", new Error("here").stack);\n`;
    for (const what of [`first ${Math.random()}`, "second", "second"])
      expect(run(saying(what)))
        .to.contain(what)
        .and.contain("program.ts:4:");
  });
});
