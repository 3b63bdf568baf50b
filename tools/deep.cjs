/**
 * `npm run test:deep`: the random tests, kills and laws at depth, one stage after another. Prints a table at the end.
 * What passed on this commit is not run again, so an interrupted run goes on where it was. Stages can be named:
 *   npm run test:deep -- laws chaos
 *   npm run test:deep -- --fresh --seed 7
 */
const { execFileSync, spawn } = require("node:child_process");
const { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } = require("node:fs");
const { join } = require("node:path");
const { parseArgs } = require("node:util");
const { testFiles } = require("./test-files.cjs");

const ROOT = join(__dirname, "..");
const FOLDER = join(ROOT, "cache", "deep");
const STATE = join(FOLDER, "state.json");

const HARDHAT = [require.resolve("hardhat/internal/cli/cli.js"), "test", "--no-compile"];
const SUITE = join(__dirname, "test.cjs");

/** What each stage runs. `env` sets its depth. */
const STAGES = {
  model: { args: [...HARDHAT, "test/laws/model.ts"], env: { LAWS_RUNS: "300" } },
  laws: { args: [join(__dirname, "forge.cjs"), "test"], env: { FOUNDRY_PROFILE: "deep" } },
  chaos: {
    args: [...HARDHAT, ...testFiles(join("test", "facilitator", "chaos"))],
    env: { CHAOS_LIES: "999", CHAOS_OUTAGES: "999", CHAOS_PAIRS: "200", CHAOS_REORGS: "60", KILLS: "200" },
  },
  gas: { args: [...HARDHAT, "test/contracts/settle-gas.ts"], env: { GAS_STEP: "97" } },
  safeguards: { args: [join(__dirname, "safeguards.cjs")] },
  faults: { args: [SUITE, "faults"] },
  kills: { args: [SUITE, "kills"] },
  roles: { args: [...HARDHAT, "test/facilitator/app/roles.ts"], env: { ROLES_KILLS: "40" } },
  scenarios: { args: [...HARDHAT, "test/e2e/scenarios.ts"], env: { SCENARIOS: "all" } },
};

function git(...args) {
  return execFileSync("git", args, { cwd: ROOT, encoding: "utf8" }).trim();
}

/** Names what is tested: a commit, or "uncommitted changes", whose results are not kept. */
function subject() {
  return git("status", "--porcelain") === "" ? git("rev-parse", "--short", "HEAD") : "uncommitted changes";
}

function passedBefore(commit, seed) {
  try {
    const state = JSON.parse(readFileSync(STATE, "utf8"));
    const isSame = state.commit === commit && (seed === undefined || state.seed === seed);
    return isSame ? state : undefined;
  } catch {
    return undefined;
  }
}

/** Runs a stage, with its output in a file. @returns its exit status */
async function run(name, seed) {
  const { args, env } = STAGES[name];
  const log = openSync(join(FOLDER, `${name}.log`), "w");
  const seeds = { KILL_SEED: seed, CHAOS_SEED: seed, SEED: seed, FOUNDRY_FUZZ_SEED: `0x${Number(seed).toString(16)}` };
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    env: { ...process.env, ...seeds, STRICT: "1", ...env },
    stdio: ["ignore", log, log],
  });
  const code = await new Promise((resolve) => child.on("close", (status) => resolve(status ?? 1)));
  closeSync(log);
  return code;
}

function table({ commit, seed, results }) {
  const rows = Object.entries(results).map(
    ([name, { passed, seconds }]) => `| ${name} | ${passed ? "passed" : "FAILED"} | ${(seconds / 60).toFixed(1)} |`,
  );
  const sum = Object.values(results).reduce((total, { seconds }) => total + seconds, 0);
  return [
    `Commit ${commit}, seed ${seed}, ${process.version}: ${(sum / 60).toFixed(0)} minutes`,
    "",
    "| stage | result | minutes |",
    "|---|---|---|",
    ...rows,
  ].join("\n");
}

async function main() {
  const { values, positionals } = parseArgs({
    options: { fresh: { type: "boolean" }, seed: { type: "string" } },
    allowPositionals: true,
  });
  const unknown = positionals.filter((name) => !(name in STAGES));
  if (unknown.length > 0)
    throw new Error(`No stage is named ${unknown.join(" or ")}: ${Object.keys(STAGES).join(", ")}`);
  if (values.seed !== undefined && !/^[1-9]\d{0,8}$/.test(values.seed)) throw new Error("--seed takes 1 to 999999999");
  mkdirSync(FOLDER, { recursive: true });
  const commit = subject();
  const kept = values.fresh ? undefined : passedBefore(commit, values.seed);
  const state = kept ?? { commit, seed: values.seed ?? String((Date.now() % 999_999) + 1), results: {} };
  for (const name of positionals.length > 0 ? positionals : Object.keys(STAGES)) {
    if (state.results[name]?.passed) continue;
    process.stdout.write(`${name} ... `);
    const begun = performance.now();
    const passed = (await run(name, state.seed)) === 0;
    state.results[name] = { passed, seconds: Math.round((performance.now() - begun) / 1_000) };
    process.stdout.write(passed ? "passed\n" : `FAILED: see ${join("cache", "deep", `${name}.log`)}\n`);
    if (commit !== "uncommitted changes") writeFileSync(STATE, JSON.stringify(state, undefined, 2));
  }
  console.log(`\n${table(state)}`);
  return Object.values(state.results).every(({ passed }) => passed) ? 0 : 1;
}

main()
  .catch((error) => {
    console.error(error.message);
    return 1;
  })
  .then((code) => process.exit(code));
