/**
 * Lists the test files that need only `npm ci`. `npm test` and `npx hardhat test` both use this list, so that neither
 * runs a suite that needs more.
 */
const { readdirSync } = require("node:fs");
const { join } = require("node:path");

/** Suites that install packages or programs of their own, by folder, and the command that runs each. */
const SUITES = {
  frameworks: "npm run test:frameworks",
  image: "npm run test:image",
  interop: "npm run test:interop",
  redis: "npm run test:redis",
};

/** Folders whose tests take minutes each, and the command that runs them; `npx hardhat test` runs them too. */
const SLOW = {
  [join("test", "package")]: "npm run test:package",
  [join("test", "facilitator", "chaos")]: "npm run test:faults",
};

/** Folders that hold no tests. */
const NOT_TESTS = ["support", "node_modules"];

/** Returns every test file below `folder`, sorted by path. */
function testFiles(folder) {
  const entries = readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
  return entries.flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return NOT_TESTS.includes(entry.name) || entry.name in SUITES ? [] : testFiles(path);
    return path.endsWith(".ts") ? [path] : [];
  });
}

/** Returns the test files that `npm test` runs. */
function quickTestFiles() {
  const isSlow = (file) => Object.keys(SLOW).some((folder) => file.startsWith(join(folder, "/")));
  return testFiles("test").filter((file) => !isSlow(file));
}

/** Returns the sentence that says how to run the suites that are left out. */
function leftOut() {
  return `Suites that install more than npm ci run by their own commands: ${Object.values(SUITES).join(", ")}.`;
}

module.exports = { SLOW, SUITES, leftOut, quickTestFiles, testFiles };
