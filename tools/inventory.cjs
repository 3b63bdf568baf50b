/**
 * Lists the titles and assertion sites of the tests by file, so that a change of the suites can be shown to lose none:
 *   node tools/inventory.cjs                  how many there are, and how many of them .ci/run reaches
 *   node tools/inventory.cjs --write FILE     keeps the list
 *   node tools/inventory.cjs --against FILE   fails with every title and site of FILE that is gone
 * A title or site that moved to another file is not gone. A site is the text of one `expect(…)`, with what follows it.
 */
const { readFileSync, readdirSync, writeFileSync } = require("node:fs");
const { join, relative } = require("node:path");
const { parseArgs } = require("node:util");
const ts = require("typescript");
const { SLOW, SUITES, slowTestFiles, quickTestFiles } = require("./test-files.cjs");

const ROOT = join(__dirname, "..");
const TITLED = /^(?:describe|it)(?:\.(?:only|skip))?$/;
const ASSERTING = /^(?:fc\.assert|expect|assert(?:\.\w+)?)$/;
const IN_SOLIDITY = { titles: /function ((?:test|invariant)\w*)/g, sites: /\b(?:assert\w*|check\w*|require)\(.*/g };

/** Returns the titles and sites of one file's text. */
function inventoryOf(file, text) {
  if (file.endsWith(".sol")) {
    const [titles, sites] = ["titles", "sites"].map((what) => text.matchAll(IN_SOLIDITY[what]));
    return { titles: [...titles].map(([, name]) => name), sites: [...sites].map(([site]) => plain(site)) };
  }
  const found = { titles: [], sites: [] };
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const visit = (node) => {
    if (ts.isCallExpression(node)) {
      const name = nameOf(node.expression);
      const [title] = node.arguments;
      if (title && TITLED.test(name)) found.titles.push(plain(title.getText(source)));
      if (ASSERTING.test(name)) found.sites.push(plain(wholeChain(node).getText(source)));
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** The name of what is called, `a` or `a.b`; empty for anything else. */
function nameOf(expression) {
  if (ts.isIdentifier(expression)) return expression.text;
  if (!ts.isPropertyAccessExpression(expression)) return "";
  return ts.isIdentifier(expression.expression) ? `${expression.expression.text}.${expression.name.text}` : "";
}

/** The longest chain of properties and calls that begins with this call: `expect(a).to.equal(b)`. */
function wholeChain(call) {
  let node = call;
  while (
    (ts.isPropertyAccessExpression(node.parent) || ts.isCallExpression(node.parent)) &&
    node.parent.expression === node
  )
    node = node.parent;
  return node;
}

const plain = (text) => text.replace(/\s+/g, " ").replace(/,? ([)\]}])/g, "$1");

function filesBelow(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === "node_modules" ? [] : filesBelow(path);
    return /\.(ts|sol)$/.test(entry.name) ? [path] : [];
  });
}

/** Returns the inventory of the tests and of what supports them, by file. */
function inventory(folder = join(ROOT, "test")) {
  return Object.fromEntries(
    filesBelow(folder).map((file) => [relative(ROOT, file), inventoryOf(file, readFileSync(file, "utf8"))]),
  );
}

function counted(texts) {
  const counts = new Map();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  return counts;
}

/** Returns what `before` has and `after` lacks, by file. */
function lost(before, after) {
  return ["titles", "sites"].flatMap((what) => {
    const left = counted(Object.values(after).flatMap((file) => file[what]));
    return Object.entries(before).flatMap(([file, of]) =>
      of[what]
        .filter((text) => !left.get(text) || !left.set(text, left.get(text) - 1))
        .map((text) => `${file}: ${text}`),
    );
  });
}

/** Returns the entries of the files that .ci/run reaches. */
function ciShare(all) {
  const commands = readFileSync(join(ROOT, ".ci/run"), "utf8");
  // A suite that installs packages may run one file there.
  const suites = new Map([...commands.matchAll(/npm run test:(\w+)(?: -- ([\w.-]+))?/g)].map(([, ...each]) => each));
  const slow = Object.keys(SLOW).filter((suite) => suites.has(suite));
  const files = new Set([...quickTestFiles(), ...slow.flatMap(slowTestFiles)]);
  const isReached = (file) => {
    const [, folder, name] = file.split("/");
    if (file.includes("/support/")) return true;
    if (folder in SUITES) return suites.has(folder) && (suites.get(folder) ?? name) === name;
    return file.endsWith(".sol") ? folder === "laws" && suites.has("laws") : files.has(file);
  };
  return Object.entries(all).filter(([file]) => isReached(file));
}

const total = (entries, what) => entries.reduce((sum, [, of]) => sum + of[what].length, 0);

function main() {
  const { values } = parseArgs({ options: { write: { type: "string" }, against: { type: "string" } } });
  const all = inventory();
  const inCi = ciShare(all);
  for (const what of ["titles", "sites"]) {
    const [count, reached] = [total(Object.entries(all), what), total(inCi, what)];
    console.log(`${count} ${what}, ${reached} of them in .ci/run (${((100 * reached) / count).toFixed(1)} %)`);
  }
  if (values.write) writeFileSync(values.write, `${JSON.stringify(all, null, 1)}\n`);
  if (!values.against) return 0;
  const gone = lost(JSON.parse(readFileSync(values.against, "utf8")), all);
  for (const line of gone) console.error(`gone: ${line}`);
  return gone.length === 0 ? 0 : 1;
}

module.exports = { inventory, inventoryOf, lost };

if (require.main === module) process.exitCode = main();
