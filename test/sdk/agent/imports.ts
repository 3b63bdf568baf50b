import { readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect } from "chai";

const SOURCE = resolve(__dirname, "../../../sdk/src");
const IMPORT = /(?:^|\n)(?:import|export)(?! type)[^;]*?from "([^"]+)"/g;

/** Every module that loading `file` loads, and every package. */
function reachable(file: string, seen = new Map<string, string>()): Map<string, string> {
  for (const [, name = ""] of readFileSync(file, "utf8").matchAll(IMPORT)) {
    if (!name.startsWith(".")) {
      seen.set(name, file);
      continue;
    }
    if (name.endsWith(".json")) continue;
    const base = join(dirname(file), name);
    const target = [`${base}.ts`, join(base, "index.ts")].find((path) => exists(path));
    if (!target) throw new Error(`${name} in ${file}`);
    if (!seen.has(target)) reachable(target, seen.set(target, file));
  }
  return seen;
}

function exists(path: string): boolean {
  try {
    return readFileSync(path).length > 0;
  } catch {
    return false;
  }
}

describe("the agent's imports", () => {
  const modules = [...reachable(join(SOURCE, "agent/index.ts")).keys()];

  it("loads nothing that a browser lacks, and no chain library", () => {
    const packages = modules.filter((name) => !name.startsWith("/"));
    expect(
      packages.filter((name) => name.startsWith("node:") || /^(ethers|proper-lockfile|fs|path)\b/.test(name)),
    ).to.deep.equal([]);
    expect(packages).to.include("zod");
  });

  it("never reaches the gate", () => {
    const folders = new Set(
      modules.filter((name) => name.startsWith("/")).map((name) => relative(SOURCE, name).split("/")[0]),
    );
    expect([...folders].sort()).to.deep.equal(["agent", "chain", "facilitator", "protocol"]);
  });
});
