import { readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import { expect } from "chai";

const ID = "(?:[ABCDJLST]|CL|H[A-GK]|M[BCW]|SM|UR)\\d{1,2}b?";
/** Ids at the start of a test's title or of a hostile case's id. */
const TITLE = new RegExp(`["'\`](${ID}(?: ${ID})*)(?=[ "'\`-])`, "g");
/** Ids at the start of a Solidity test's comment. */
const COMMENT = new RegExp(`^\\s*/// (?:@notice )?(${ID}(?: ${ID})*) `, "gm");
const ROW = new RegExp(`^\\| (${ID}) \\|(?:.+)\\| ([^|]+) \\|$`, "gm");
/** What the last column states for an entry without a test, with the reason behind it. */
const UNTESTED = /^not tested: .+/;

const testFiles = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return ["node_modules", ".next"].includes(entry.name) ? [] : testFiles(path);
    return /\.(?:ts|mjs|sol)$/.test(entry.name) ? [path] : [];
  });

/** The folder in `test/` that the catalogue names: two levels deep in the service and the SDK. */
function folderOf(path: string): string {
  const [first = "", second = ""] = path.split(sep).slice(1, -1);
  return ["facilitator", "sdk"].includes(first) ? `${first}/${second}` : first;
}

/** @returns each id in the titles of tests, with the folders of those tests */
function namedIds(): Map<string, string[]> {
  const named = new Map<string, Set<string>>();
  for (const path of testFiles("test")) {
    const titles = readFileSync(path, "utf8").matchAll(path.endsWith(".sol") ? COMMENT : TITLE);
    for (const id of [...titles].flatMap(([, ids = ""]) => ids.split(" "))) {
      named.set(id, (named.get(id) ?? new Set()).add(folderOf(path)));
    }
  }
  return new Map([...named].map(([id, folders]) => [id, [...folders].sort()]));
}

describe("agreement > docs/engineering/threats.md", () => {
  const rows = [...readFileSync("docs/engineering/threats.md", "utf8").matchAll(ROW)].map(
    ([, id = "", where = ""]) => ({ id, where }),
  );
  const named = namedIds();

  it("lists each id once", () => {
    const ids = rows.map(({ id }) => id);
    expect(ids).to.have.length.greaterThan(150);
    expect([...new Set(ids)]).to.deep.equal(ids);
  });

  it("lists every id that a test's title names", () => {
    const listed = new Set(rows.map(({ id }) => id));
    expect([...named.keys()].filter((id) => !listed.has(id))).to.deep.equal([]);
  });

  it("lists no id that no test names, unless it states why it is not tested", () => {
    const untested = rows.filter(({ id, where }) => !named.has(id) && !UNTESTED.test(where));
    expect(untested.map(({ id }) => id)).to.deep.equal([]);
    const tested = rows.filter(({ id, where }) => named.has(id) && UNTESTED.test(where));
    expect(tested.map(({ id }) => id)).to.deep.equal([]);
  });

  it("names the folders of an id's tests", () => {
    for (const { id, where } of rows) {
      if (!UNTESTED.test(where)) expect(where, id).to.equal((named.get(id) ?? []).join(", "));
    }
  });
});
