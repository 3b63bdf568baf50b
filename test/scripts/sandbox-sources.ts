import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { DEPLOYED } from "../../scripts/sandbox/prepare";

const ROOT = path.resolve(__dirname, "../..");

/** Chooses the sources itself. */
const CHOOSER = "scripts/sandbox/prepare.ts";

/** The source and those that it imports, however deep. */
function importedBy(source: string, known = new Set<string>()): ReadonlySet<string> {
  if (known.has(source)) return known;
  known.add(source);
  const text = readFileSync(path.join(ROOT, source), "utf8");
  for (const [, target = ""] of text.matchAll(/from "(\.[^"]+\.sol)"/g))
    importedBy(path.posix.join(path.posix.dirname(source), target), known);
  return known;
}

describe("scripts > the sandbox's first start", () => {
  it("HB3 compiles every contract that the sandbox and the deployment read", () => {
    const files = ["scripts/sandbox", "scripts/deploy"].flatMap((folder) =>
      readdirSync(path.join(ROOT, folder), { recursive: true, encoding: "utf8" }).map((name) => `${folder}/${name}`),
    );
    const programs = [...files.filter((file) => file.endsWith(".ts") && file !== CHOOSER), "scripts/deploy.ts"];
    const read = programs.flatMap((file) =>
      readFileSync(path.join(ROOT, file), "utf8").match(/contracts\/[\w/]+\.sol/g),
    );
    const compiled = new Set(DEPLOYED.flatMap((source) => [...importedBy(source)]));
    expect(read).to.include("contracts/Turnpike.sol");
    expect(read.filter((source) => source !== null && !compiled.has(source))).to.deep.equal([]);
  });
});
