import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";

interface Rule {
  readonly from: { readonly path?: string };
  readonly to: { readonly path?: string };
}

const SOURCES = "facilitator/src";
const TABLES = `${SOURCES}/db/tables`;
const { forbidden }: { forbidden: readonly Rule[] } = require("../../.dependency-cruiser.cjs");

const folders = readdirSync(SOURCES, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);

/** By the rules of imports. */
function mayImport(folder: string, other: string): boolean {
  const matches = (pattern: string | undefined, name: string): boolean =>
    pattern !== undefined && new RegExp(pattern).test(`${SOURCES}/${name}/index.ts`);
  return !forbidden.some(({ from, to }) => matches(from.path, folder) && matches(to.path, other));
}

/** Tables by the folder whose name their file has; those of other files are the database's own. */
function ownersOfTables(): ReadonlyMap<string, string> {
  const schema = readFileSync(`${SOURCES}/db/schema.ts`, "utf8");
  const tableOf = new Map([...schema.matchAll(/^ {2}(\w+): (\w+);$/gm)].map(([, table, type]) => [type, table]));
  return new Map(
    readdirSync(TABLES).flatMap((file) => {
      const name = path.basename(file, ".ts");
      const types = [
        ...readFileSync(path.join(TABLES, file), "utf8").matchAll(/^export (?:interface|type) (\w+Table) /gm),
      ];
      const owner = folders.includes(name) ? name : "db";
      return types.map(([, type]): [string, string] => [tableOf.get(type) ?? `${type} is in no schema`, owner]);
    }),
  );
}

describe("agreement > tables", () => {
  const owners = ownersOfTables();
  const named = new RegExp(
    `(?:\\b(?:from|join|into|update|analyze)\\s+|(?:selectFrom|insertInto|updateTable|deleteFrom|[jJ]oin)\\(\\s*")(${[...owners.keys()].join("|")})\\b`,
    "g",
  );

  it("every table of the schema has an owner", () => {
    const schema = readFileSync(`${SOURCES}/db/schema.ts`, "utf8").split("export interface Tables {")[1] ?? "";
    const tables = [...schema.matchAll(/^ {2}(\w+): \w+;$/gm)].map(([, table]) => table);
    expect([...owners.keys()].sort()).to.deep.equal(tables.sort());
  });

  for (const folder of folders) {
    it(`${folder} names in SQL only tables of its own and of folders that it may import`, () => {
      const wrong: string[] = [];
      for (const file of readdirSync(path.join(SOURCES, folder), { recursive: true, encoding: "utf8" })) {
        if (!file.endsWith(".ts") || file.startsWith("migrations")) continue;
        const text = readFileSync(path.join(SOURCES, folder, file), "utf8");
        const code = text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*/g, "");
        for (const [, table = ""] of code.matchAll(named)) {
          const owner = owners.get(table) ?? "";
          if (owner !== folder && !mayImport(folder, owner)) wrong.push(`${folder}/${file}: ${table} of ${owner}`);
        }
      }
      expect(wrong).to.deep.equal([]);
    });
  }
});
