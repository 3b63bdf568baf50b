import { existsSync, readdirSync, readFileSync } from "node:fs";
import { expect } from "chai";
import { ERRORS, isErrorCode } from "turnpike/protocol";

const readme = readFileSync("README.md", "utf8");
const scripts: Record<string, string> = JSON.parse(readFileSync("package.json", "utf8")).scripts;

const rowsOf = (heading: string): string[][] => {
  const section = readme.split(/^## /m).find((text) => text.startsWith(heading)) ?? "";
  const rows = section.split("\n").filter((line) => line.startsWith("| `"));
  return rows.map((line) =>
    line
      .split("|")
      .map((cell) => cell.trim())
      .slice(1, -1),
  );
};

describe("agreement > README", () => {
  it("lists the errors with the cause and the remedy of the table", () => {
    const rows = rowsOf("When something goes wrong");
    expect(rows).to.have.length(5);
    for (const [code = "", cause, remedy] of rows) {
      const name = code.replaceAll("`", "");
      if (!isErrorCode(name)) throw new Error(`${name} is no error`);
      expect({ cause, remedy }).to.deep.equal({ cause: ERRORS[name].cause, remedy: ERRORS[name].remedy });
    }
  });

  it("names only npm scripts that exist", () => {
    const named = [...readme.matchAll(/npm (?:run )?(start|test|[a-z]+(?::[a-z]+)?)\b/g)].map(([, name]) => name ?? "");
    const own = new Set(named.filter((name) => !["ci", "run", "install"].includes(name)));
    expect([...own].filter((name) => !(name in scripts))).to.deep.equal([]);
    expect([...own]).to.include.members(["start", "test"]);
  });

  it("lists exactly the folders that are there", () => {
    const listed = rowsOf("Where things are").map(([folder = ""]) => folder.replaceAll(/[`/]/g, ""));
    for (const folder of listed) expect(existsSync(folder), folder).to.equal(true);
    const hidden = ["node_modules", "artifacts", "cache", "coverage", "dist", "out", "typechain-types", "tools"];
    const there = readdirSync(".", { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && /^[a-z]+$/.test(entry.name) && !hidden.includes(entry.name))
      .map((entry) => entry.name);
    expect(listed.sort()).to.deep.equal(there.sort());
  });
});
