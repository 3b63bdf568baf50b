/**
 * Lists the attacks, faults and laws that tests name, with the titles of those tests: `node tools/threats.cjs [ids]`.
 * A title starts with its ids, such as "A13 one poisoned item"; a Solidity test has them in its comment.
 */
const { readdirSync, readFileSync } = require("node:fs");
const { join } = require("node:path");

const ROOT = join(__dirname, "..");

const ID = "(?:[ABCDJLST]|CL|H[A-GK]|M[BCW]|SM|UR)\\d{1,2}b?";
const TITLE = new RegExp(`(["'\`])(${ID}(?: ${ID})*)[ -]((?:(?!\\1).)*)`, "g");
const COMMENT = new RegExp(`^\\s*///() (?:@notice )?(${ID}(?: ${ID})*) (.*)`, "gm");

function testFiles(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return ["node_modules", ".next"].includes(entry.name) ? [] : testFiles(path);
    return /\.(?:ts|mjs|sol)$/.test(entry.name) ? [path] : [];
  });
}

/** @returns each id with its tests, as `file: title` */
function threats(folder = join(ROOT, "test")) {
  const named = new Map();
  for (const path of testFiles(folder)) {
    const pattern = path.endsWith(".sol") ? COMMENT : TITLE;
    for (const [, , ids, title] of readFileSync(path, "utf8").matchAll(pattern)) {
      for (const id of ids.split(" "))
        named.set(id, [...(named.get(id) ?? []), `${path.slice(ROOT.length + 1)}: ${title}`]);
    }
  }
  const order = new Intl.Collator("en", { numeric: true });
  return new Map([...named].sort(([a], [b]) => order.compare(a, b)));
}

if (require.main === module) {
  const wanted = process.argv.slice(2);
  for (const [id, tests] of threats()) {
    if (wanted.length > 0 && !wanted.includes(id)) continue;
    console.log(`${id}\n${tests.map((test) => `  ${test}`).join("\n")}`);
  }
}

module.exports = { threats };
