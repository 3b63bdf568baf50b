import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";

const ID = /\bH[ABD]\d\b/g;

const testFiles = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === "node_modules" ? [] : testFiles(path);
    return /\.(?:ts|mjs)$/.test(entry.name) ? [path] : [];
  });

describe("agreement > docs/engineering/threats.md", () => {
  it("lists exactly the attacks that tests name", () => {
    const page = readFileSync("docs/engineering/threats.md", "utf8");
    const listed = [...page.matchAll(/^\| (H[ABD]\d) \|/gm)].map(([, id]) => id ?? "");
    const named = testFiles("test").flatMap((path) => readFileSync(path, "utf8").match(ID) ?? []);
    expect(listed).to.deep.equal([...new Set(named)].sort());
  });
});
