#!/usr/bin/env node
// Measures the coverage of contracts/ by the contracts' own tests. Fails below 100 % of any measure, so that no line or
// branch without a test can be merged.
const { spawnSync } = require("node:child_process");
const { existsSync, readdirSync, readFileSync, rmSync } = require("node:fs");
const { join, relative } = require("node:path");

const ROOT = join(__dirname, "..");
const SUMMARY = join(ROOT, "coverage", "coverage-summary.json");
const MEASURES = ["lines", "branches", "functions", "statements"];

/** Tests that reach no line or branch which the others do not. They take a third of the time. */
const REPEATING = [
  "calendar",
  "code-size",
  "events",
  "gas-per-item",
  "hundred",
  "orders",
  "outside-properties",
  "races",
  "settle-gas",
  "start",
  "status",
  "testToken",
];

/** The tests that are run. */
const tests = () =>
  readdirSync(join(ROOT, "test", "contracts"))
    .filter((name) => name.endsWith(".ts") && !REPEATING.includes(name.slice(0, -".ts".length)))
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

rmSync(SUMMARY, { force: true });
// What was instrumented in another folder, and copied with the checkout, has counters that nothing counts.
rmSync(join(ROOT, "cache", "coverage"), { recursive: true, force: true });
const cli = require.resolve("hardhat/internal/cli/cli.js");
const counters = require.resolve("./coverage-hashes.cjs");
// Each traced step makes objects that die at once: more memory for them saves a third of the time.
const run = spawnSync(
  process.execPath,
  ["--max-semi-space-size=64", "-r", counters, cli, "coverage", "--testfiles", `{${tests().join(",")}}`],
  {
    cwd: ROOT,
    stdio: "inherit",
    // Read by hardhat.config.ts, and by the tests that do not apply to instrumented code. From Osaka on a transaction has
    // too little gas to create Turnpike with its counters.
    env: { ...process.env, SOLIDITY_COVERAGE: "true", TURNPIKE_NODE_HARDFORK: "prague" },
  },
);
if (run.status !== 0) process.exit(run.status ?? 1);
const complaints = existsSync(SUMMARY) ? judge(JSON.parse(readFileSync(SUMMARY, "utf8"))) : ["nothing was measured"];
for (const complaint of complaints) console.error(complaint);
process.exit(complaints.length === 0 ? 0 : 1);
