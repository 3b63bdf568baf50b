/**
 * Runs the tests. `npm test` runs all but the suites that take minutes each. With a suite's name it runs that suite; with
 * other arguments it is `hardhat test` with those arguments.
 *
 * Several files run in parallel and share the cores with other load, so a test that waits for another process can run
 * out of time. The files of failed tests are therefore run once more, alone. A test that fails again has failed. One
 * that passes alone is listed at the end as unsteady, with its error. It is a bug of the test or a race in the code,
 * and must be investigated. STRICT=1 counts it as failed.
 *
 * One PostgreSQL server holds the databases of all files. The embedded database, which takes twice the processor's
 * time, serves TEST_DATABASE=embedded and `npx hardhat test`. Suites that install packages run by this runner, too.
 */
const { spawn } = require("node:child_process");
const { mkdtempSync, readFileSync, rmSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { basename, join } = require("node:path");
const { startPostgres } = require("../facilitator/tools/postgres.cjs");
const { inTurns, keep } = require("./kept-times.cjs");
const { installedTestFiles, leftOut, quickTestFiles, SLOW, slowTestFiles } = require("./test-files.cjs");

const HARDHAT = require.resolve("hardhat/internal/cli/cli.js");

/** Suites whose files have a browser each, which calculates where others wait. */
const WITH_BROWSERS = ["dashboard", "page"];

/** More unsteady files than this are not caused by the machine's load. */
const UNSTEADY_AT_MOST = 3;

/** Characters of an error in a list of failed tests. */
const ERROR_SHOWN = 200;

/** Runs a program. @returns its exit status */
function run(args, env = {}) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, { stdio: "inherit", env: { ...process.env, ...env } });
    child.on("close", (code) => resolve(code ?? 1));
  });
}

function linesOf(file) {
  const lines = readFileSync(file, "utf8").split("\n").filter(Boolean);
  return lines.map((line) => JSON.parse(line));
}

/**
 * Runs these test files. @param suite keeps what they cost under this name
 * @returns the exit status, whether they cost no more than they may, and the failed tests
 */
async function runFiles(files, { suite = undefined, isParallel = false } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "turnpike-test-report-"));
  const report = join(folder, "failures");
  const times = join(folder, "times");
  for (const file of [report, times]) writeFileSync(file, "");
  try {
    const env = { TEST_REPORT: report, TEST_TIMES: times };
    const begunMs = performance.now();
    const chosen = isParallel ? ["--parallel", ...inTurns(files)] : files;
    const code = await run([HARDHAT, "test", "--no-compile", ...chosen], env);
    const isCheap = !suite || keep(suite, linesOf(times), (performance.now() - begunMs) / 1_000);
    return { code, isCheap, failures: linesOf(report) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function show(title, failures) {
  if (failures.length === 0) return;
  console.log(`\n${title}`);
  for (const { file, title: test, error } of failures)
    console.log(`\n  ${file}: ${test}\n    ${error.replaceAll("\n", "\n    ")}`);
  // Once more in short: a log is often read from its end.
  console.log("");
  for (const { file, title: test, error } of failures)
    console.log(`${file}: ${test}: ${error.split("\n", 1)[0].slice(0, ERROR_SHOWN)}`);
}

/** Judges a run, in which a failure without a test's name (a crash, or a file that does not load) has failed. */
async function verdict({ code, isCheap, failures }) {
  if (code === 0) return isCheap || process.env.STRICT !== "1" ? 0 : 1;
  const files = [...new Set(failures.map(({ file }) => file))];
  const worthASecondRun =
    process.env.STRICT !== "1" &&
    files.length > 0 &&
    files.length <= UNSTEADY_AT_MOST &&
    files.every((file) => file !== null);
  if (!worthASecondRun) {
    show("FAILED:", failures);
    return 1;
  }
  console.log(`\nOnce more, alone: ${files.join(" ")}`);
  const alone = await runFiles(files);
  if (alone.code !== 0) {
    show("FAILED:", failures);
    show("FAILED again, alone:", alone.failures);
    return 1;
  }
  show("UNSTEADY: failed beside other tests and passed alone. To be looked at:", failures);
  return 0;
}

/** Returns the status of `act`, which runs with TEST_PG_URL set. */
async function withPostgres(act) {
  if (process.env.TEST_DATABASE === "embedded" || process.env.TEST_PG_URL) return act();
  const postgres = await startPostgres();
  process.env.TEST_PG_URL = postgres.url;
  try {
    return await act();
  } finally {
    await postgres.stop();
  }
}

/** Compiles the contracts, unless COMPILED=1 says that they are, and runs a suite. @returns the exit status */
async function runSuite(suite, files) {
  if (WITH_BROWSERS.includes(suite)) process.env.TEST_JOBS ??= "3";
  const compiled = process.env.COMPILED === "1" ? 0 : await run([HARDHAT, "compile", "--quiet", "--concurrency", "2"]);
  if (compiled !== 0) return compiled;
  return withPostgres(async () => verdict(await runFiles(files, { suite, isParallel: true })));
}

/** Runs `hardhat test` with these arguments. @returns the exit status */
const runTests = (args) => withPostgres(() => run([HARDHAT, "test", ...args]));

/**
 * Runs a suite of a folder whose packages `prepare` installs, or the files of it that `args` name.
 * @param prepare returns an exit status
 */
async function runInstalled(name, args, prepare) {
  const prepared = prepare();
  if (prepared !== 0) return prepared;
  const files = installedTestFiles(name);
  if (args.length === 0) return runSuite(name, files);
  return runTests(args.map((arg) => files.find((file) => file === join("test", name, basename(arg))) ?? arg));
}

async function main(args) {
  const [suite] = args;
  if (suite === undefined) {
    console.log(leftOut());
    return runSuite("quick", quickTestFiles());
  }
  return Object.hasOwn(SLOW, suite) ? runSuite(suite, slowTestFiles(suite)) : runTests(args);
}

/** Exits at once: the database's own exit hook would end this process with 0, whatever exitCode is. */
const exitWith = (status) => status.then((code) => process.exit(code));

module.exports = { exitWith, runFiles, runInstalled, withPostgres };

if (require.main === module) exitWith(main(process.argv.slice(2)));
