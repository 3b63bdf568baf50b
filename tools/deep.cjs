/**
 * `npm run test:deep`: the random tests, kills and laws at depth. The laws run beside the other stages, which run one
 * after another. Prints a table, which `--publish` writes to docs/engineering/deep-runs.md.
 *
 * What passed is not run again until a file that it depends on changes, so an interrupted run goes on where it was.
 * Stages can be named:
 *   npm run test:deep -- laws chaos
 *   npm run test:deep -- --fresh --seed 7
 */
const { execFileSync, spawn } = require("node:child_process");
const { createHash } = require("node:crypto");
const { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } = require("node:fs");
const { constants, setPriority } = require("node:os");
const { join } = require("node:path");
const { parseArgs } = require("node:util");
const { testFiles, variedTestFiles } = require("./test-files.cjs");

const ROOT = join(__dirname, "..");
const FOLDER = join(ROOT, "cache", "deep");
const STATE = join(FOLDER, "state.json");
const PAGE = join(ROOT, "docs", "engineering", "deep-runs.md");

const HARDHAT = [require.resolve("hardhat/internal/cli/cli.js"), "test", "--no-compile"];
const SUITE = join(__dirname, "test.cjs");

const CONTRACTS = ["contracts", "package-lock.json"];
const HARDHAT_TESTS = [...CONTRACTS, "hardhat.config.ts", "tsconfig.json", "test/support"];
const EVERYTHING = [...HARDHAT_TESTS, "facilitator", "sdk", "scripts", "test", "tools", "package.json"];

/** What each stage runs. `env` sets its depth; a change in `paths` makes its result void. */
const STAGES = {
  laws: {
    args: [join(__dirname, "forge.cjs"), "test"],
    env: { FOUNDRY_PROFILE: "deep" },
    paths: [...CONTRACTS, "test/laws", "foundry.toml", "tools/forge.cjs"],
    isBeside: true,
  },
  model: {
    args: [...HARDHAT, "test/laws/model.ts"],
    env: { LAWS_RUNS: "300" },
    paths: [...HARDHAT_TESTS, "test/laws/model.ts", "sdk/src"],
  },
  gas: {
    args: [...HARDHAT, "test/contracts/settle-gas.ts"],
    env: { GAS_STEP: "97" },
    paths: [...HARDHAT_TESTS, "test/contracts"],
  },
  pauses: {
    args: [...HARDHAT, "test/sdk/gate/claims/paused.ts"],
    env: { PAUSE_STEP: "1" },
    paths: [...HARDHAT_TESTS, "test/sdk/gate/claims", "sdk/src"],
  },
  answers: {
    args: [...HARDHAT, "test/sdk/gate/adapters/generated-answers.ts"],
    env: { ANSWER_RUNS: "1000" },
    paths: [...HARDHAT_TESTS, "test/sdk/gate", "sdk/src"],
  },
  crashes: {
    args: [SUITE, "--no-compile", "test/sdk/gate/claims/crash-orders.ts"],
    env: { CRASH_RUNS: "1000" },
    paths: [...HARDHAT_TESTS, "test/sdk/gate", "sdk/src"],
  },
  streams: {
    args: [...HARDHAT, "test/sdk/gate/metering/kill-streams.ts"],
    env: { STREAMS: "10000", KILLS: "6" },
    paths: [...HARDHAT_TESTS, "test/sdk/gate/metering", "sdk/src"],
  },
  embedded: { args: [SUITE], env: { TEST_DATABASE: "embedded" }, paths: EVERYTHING },
  chaos: {
    args: [...HARDHAT, ...testFiles(join("test", "facilitator", "chaos"))],
    env: {
      VARIANTS: "all",
      CHAOS_LIES: "999",
      CHAOS_OUTAGES: "999",
      CHAOS_PAIRS: "200",
      CHAOS_REORGS: "60",
      KILLS: "200",
    },
    paths: EVERYTHING,
  },
  variants: { args: [SUITE, "variants"], paths: EVERYTHING },
  combinations: { args: [...HARDHAT, ...variedTestFiles()], env: { VARIANTS: "all" }, paths: EVERYTHING },
  interop: {
    args: [join(__dirname, "interop.cjs"), "test/interop/sandbox.ts"],
    env: { VARIANTS: "all" },
    paths: EVERYTHING,
  },
  runtimes: { args: [join(__dirname, "runtimes.cjs")], paths: EVERYTHING },
  redis: { args: [join(__dirname, "redis.cjs")], paths: EVERYTHING },
  safeguards: { args: [join(__dirname, "safeguards.cjs")], paths: EVERYTHING },
  faults: { args: [SUITE, "faults"], paths: EVERYTHING },
  drills: { args: [SUITE, "drills"], paths: EVERYTHING },
  kills: { args: [SUITE, "kills"], paths: EVERYTHING },
  roles: { args: [...HARDHAT, "test/facilitator/app/roles.ts"], env: { ROLES_KILLS: "40" }, paths: EVERYTHING },
  scenarios: { args: [...HARDHAT, "test/e2e/scenarios.ts"], env: { SCENARIOS: "all" }, paths: EVERYTHING },
};

function git(...args) {
  return execFileSync("git", args, { cwd: ROOT, encoding: "utf8" }).trim();
}

/** Returns what a stage's result is kept under: its command and the files it depends on; undefined when they are not committed. */
function subjectOf({ args, env, paths }) {
  if (git("status", "--porcelain", "--", ...paths) !== "") return undefined;
  const relative = args.map((arg) => arg.replace(ROOT, ""));
  const files = git("ls-tree", "-r", "HEAD", "--", ...paths);
  return createHash("sha256")
    .update(JSON.stringify([relative, env, files]))
    .digest("hex");
}

/** Returns the kept seed and results. */
function load() {
  try {
    return JSON.parse(readFileSync(STATE, "utf8"));
  } catch {
    return { results: {} };
  }
}

/** Runs a stage, with its output in a file. @returns its exit status */
async function run(name, seed) {
  const { args, env, isBeside } = STAGES[name];
  const log = openSync(join(FOLDER, `${name}.log`), "w");
  const seeds = {
    KILL_SEED: seed,
    CHAOS_SEED: seed,
    SEED: seed,
    CRASH_SEED: seed,
    FOUNDRY_FUZZ_SEED: `0x${Number(seed).toString(16)}`,
  };
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    env: { ...process.env, ...seeds, STRICT: "1", ...env },
    stdio: ["ignore", log, log],
  });
  // It takes what the others leave, so that no test of theirs runs out of time.
  if (isBeside && child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW);
  const code = await new Promise((resolve) => child.on("close", (status) => resolve(status ?? 1)));
  closeSync(log);
  return code;
}

/** Runs a stage unless its result is kept, and keeps the result. */
async function advance(name, state) {
  const subject = subjectOf(STAGES[name]);
  const kept = state.results[name];
  if (kept?.passed && kept.subject !== undefined && kept.subject === subject && kept.seed === state.seed) {
    console.log(`${name}: passed before, on ${kept.commit}`);
    return;
  }
  const commit = git("rev-parse", "--short", "HEAD");
  const begun = performance.now();
  const passed = (await run(name, state.seed)) === 0;
  const seconds = Math.round((performance.now() - begun) / 1_000);
  state.results[name] = { passed, seconds, seed: state.seed, commit, subject };
  console.log(`${name}: ${passed ? "passed" : `FAILED, see ${join("cache", "deep", `${name}.log`)}`}`);
  writeFileSync(STATE, JSON.stringify(state, undefined, 2));
}

function rowOf(name, { passed, seconds, seed, commit, subject }) {
  const of = subject === undefined ? `${commit} and uncommitted changes` : commit;
  return `| ${name} | ${passed ? "passed" : "FAILED"} | ${(seconds / 60).toFixed(1)} | ${seed} | ${of} |`;
}

/** @param published rows of stages that have no result here */
function table({ results }, published = new Map()) {
  const rows = Object.keys(STAGES).flatMap((name) =>
    results[name] ? rowOf(name, results[name]) : (published.get(name) ?? []),
  );
  return ["| stage | result | minutes | seed | commit |", "|---|---|--:|--:|---|", ...rows].join("\n");
}

/** Writes the results into the page's table, which keeps those of other machines. */
function publish(state) {
  const page = readFileSync(PAGE, "utf8");
  const published = new Map(
    [...page.matchAll(/^\| (\w+) \| (?:passed|FAILED) .*/gm)].map(([row, name]) => [name, row]),
  );
  writeFileSync(
    PAGE,
    page.replace(/^\| stage \| result \|.*\n(?:\|.*\n)*/m, () => `${table(state, published)}\n`),
  );
}

async function main() {
  const { values, positionals } = parseArgs({
    options: { fresh: { type: "boolean" }, publish: { type: "boolean" }, seed: { type: "string" } },
    allowPositionals: true,
  });
  const unknown = positionals.filter((name) => !Object.hasOwn(STAGES, name));
  if (unknown.length > 0)
    throw new Error(`No stage is named ${unknown.join(" or ")}: ${Object.keys(STAGES).join(", ")}`);
  if (values.seed !== undefined && !/^[1-9]\d{0,8}$/.test(values.seed)) throw new Error("--seed takes 1 to 999999999");
  mkdirSync(FOLDER, { recursive: true });
  const before = values.fresh ? { results: {} } : load();
  const seed = values.seed ?? before.seed ?? String((Date.now() % 999_999) + 1);
  const state = { seed, results: before.results };
  const names = positionals.length > 0 ? positionals : Object.keys(STAGES);
  const beside = names.filter((name) => STAGES[name].isBeside).map((name) => advance(name, state));
  for (const name of names.filter((name) => !STAGES[name].isBeside)) await advance(name, state);
  await Promise.all(beside);
  console.log(`\n${table(state)}`);
  if (values.publish) publish(state);
  return names.every((name) => state.results[name].passed) ? 0 : 1;
}

module.exports = { STAGES, subjectOf };
if (require.main === module) {
  main()
    .catch((error) => {
      console.error(error.message);
      return 1;
    })
    .then((code) => process.exit(code));
}
