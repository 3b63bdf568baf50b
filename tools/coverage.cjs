#!/usr/bin/env node
// Measures the coverage of contracts/ by the contracts' own tests. Fails below 100 % of any measure, so that no line or
// branch without a test can be merged. Where the chosen tests do not reach everything, all are run.
const { spawnSync } = require("node:child_process");
const { existsSync, readdirSync, readFileSync, rmSync } = require("node:fs");
const { join, relative } = require("node:path");

const ROOT = join(__dirname, "..");
const SUMMARY = join(ROOT, "coverage", "coverage-summary.json");
const MEASURES = ["lines", "branches", "functions", "statements"];

/**
 * The tests that are run, by file. All of them take eight minutes of processor; these reach every counter too, and take
 * one. They were found by a run of all (`npm run coverage -- --choose`) that noted which counters each test raised and
 * what it cost: the test with the most counters that no chosen one raised, by its cost, was chosen until none was left.
 */
const CHOSEN = join(__dirname, "coverage-tests.json");

const allTests = () =>
  readdirSync(join(ROOT, "test", "contracts"))
    .filter((name) => name.endsWith(".ts"))
    .map((name) => join("test", "contracts", name));

/** The covered sources: the project's contracts, without their interfaces and the contracts that only tests use. */
function sources(folder = join(ROOT, "contracts")) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (entry.isDirectory()) {
      return ["test", "interfaces"].includes(entry.name) ? [] : sources(join(folder, entry.name));
    }
    return entry.name.endsWith(".sol") ? [relative(ROOT, join(folder, entry.name))] : [];
  });
}

/** Returns problems in istanbul's summary; none when everything is covered. */
function judge(summary) {
  const byFile = new Map(Object.entries(summary).map(([file, figures]) => [relative(ROOT, file), figures]));
  return sources().flatMap((file) => {
    const figures = byFile.get(file);
    if (!figures) return [`${file} was not measured`];
    const short = MEASURES.filter((measure) => figures[measure].covered < figures[measure].total);
    return short.map((measure) => `${file}: ${figures[measure].pct} % of its ${measure}`);
  });
}

/** Runs these files. @returns what is not covered */
function measure(files, env) {
  rmSync(SUMMARY, { force: true });
  // What was instrumented in another folder, and copied with the checkout, has counters that nothing counts.
  rmSync(join(ROOT, "cache", "coverage"), { recursive: true, force: true });
  const cli = require.resolve("hardhat/internal/cli/cli.js");
  const counters = require.resolve("./coverage-counters.cjs");
  // Each traced step makes objects that die at once: more memory for them saves a third of the time.
  const run = spawnSync(
    process.execPath,
    ["--max-semi-space-size=64", "-r", counters, cli, "coverage", "--testfiles", `{${files.join(",")}}`],
    {
      cwd: ROOT,
      stdio: "inherit",
      // Read by hardhat.config.ts, and by the tests that do not apply to instrumented code. From Osaka on a transaction
      // has too little gas to create Turnpike with its counters.
      env: { ...process.env, SOLIDITY_COVERAGE: "true", TURNPIKE_NODE_HARDFORK: "prague", ...env },
    },
  );
  if (run.status !== 0) process.exit(run.status ?? 1);
  return existsSync(SUMMARY) ? judge(JSON.parse(readFileSync(SUMMARY, "utf8"))) : ["nothing was measured"];
}

let complaints;
if (process.argv.includes("--choose")) complaints = measure(allTests(), { COVERAGE_CHOOSE: CHOSEN });
else {
  const files = Object.keys(JSON.parse(readFileSync(CHOSEN, "utf8"))).filter((file) => existsSync(join(ROOT, file)));
  complaints = measure(files, { COVERAGE_TESTS: CHOSEN });
  if (complaints.length > 0) {
    console.error(`${complaints.join("\n")}\nThe chosen tests do not reach everything (npm run coverage -- --choose).`);
    complaints = measure(allTests(), {});
  }
}
for (const complaint of complaints) console.error(complaint);
process.exit(complaints.length === 0 ? 0 : 1);
