import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect } from "chai";
import { ERROR_CLASSES, ERRORS } from "turnpike/protocol";

const FROM = { contract: "contracts", sdk: "SDK, Facilitator", both: "all" } as const;

function pages(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? pages(path) : path.endsWith(".md") ? [path] : [];
  });
}

describe("agreement > docs", () => {
  it("docs/reference/errors.md lists exactly the errors of the table, with their status, cause and remedy", () => {
    const listed = readFileSync("docs/reference/errors.md", "utf8")
      .split("\n")
      .filter((line) => line.startsWith("| `"));
    const expected = Object.entries(ERRORS).map(
      ([code, row]) =>
        `| \`${code}\` | \`${code in ERROR_CLASSES ? code : "TurnpikeError"}\` | ${row.status} | ${row.retryable ? "yes" : "no"} | ${FROM[row.origin]} | ${row.cause} | ${row.remedy} |`,
    );
    expect(listed).to.deep.equal(expected);
  });

  it("pages name only errors that exist", () => {
    for (const page of ["docs/reference/operations.md", ...pages("docs/guides")]) {
      for (const [, paragraph] of readFileSync(page, "utf8").matchAll(/\*\*Errors\*\*([\s\S]*?)(?:\n\n|$)/g)) {
        for (const [, name] of (paragraph ?? "").matchAll(/`([A-Z][A-Za-z]+)(?:\([^`]*\))?`/g)) {
          expect(Object.keys(ERRORS), `${page}: ${name}`).to.include(name);
        }
      }
    }
  });

  it("the programs of the guide from stock x402 are the ones that the interop suite runs", () => {
    const page = readFileSync("docs/guides/stock-x402.md", "utf8");
    const shown = [...page.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code]) => code);
    const names = ["provider-before", "provider-after", "agent-before", "agent-after"];
    const run = names.map((name) => readFileSync(`test/interop/migration/${name}.mts`, "utf8"));
    expect(shown).to.deep.equal(run);
  });

  it("every link between pages leads to a file", () => {
    for (const page of ["README.md", "CHANGELOG.md", ...pages("docs")].filter((path) => existsSync(path))) {
      for (const [, target] of readFileSync(page, "utf8").matchAll(/\]\((?!https?:|#)([^)#\s]+)[^)]*\)/g)) {
        expect(existsSync(join(dirname(page), target ?? "")), `${page} -> ${target}`).to.equal(true);
      }
    }
  });

  it("the index leads to every page, and llms.txt to every page for users", () => {
    const linksOf = (page: string): string[] =>
      [...readFileSync(page, "utf8").matchAll(/\]\(([^)#\s]+\.md)/g)].map(([, target]) =>
        join(dirname(page), target ?? ""),
      );
    const indexed = new Set([...linksOf("docs/README.md"), "docs/README.md"]);
    expect(pages("docs").filter((page) => !indexed.has(page))).to.deep.equal([]);
    const users = ["quickstart", "guides", "concepts", "operators"].flatMap((folder) => pages(join("docs", folder)));
    const mapped = new Set(linksOf("llms.txt"));
    expect(users.filter((page) => !mapped.has(page))).to.deep.equal([]);
  });
});
