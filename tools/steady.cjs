/**
 * `npm run test:steady`: runs the quick suite five times under load, and the files of it that start processes fifteen
 * times more, for 90 minutes at most. `-- quick` and `-- processes` run one of both. Lists every test that failed, and
 * how often. Compile the contracts first.
 */
const { spawn } = require("node:child_process");
const { readFileSync } = require("node:fs");
const { loadavg } = require("node:os");
const { exitWith, runFiles, withPostgres } = require("./test.cjs");
const { jobs, quickTestFiles } = require("./test-files.cjs");

/** Of the machine: the tests, what ran before, and processes that calculate beside them. */
const LOAD = 8;
const MINUTES = 90;
const RUNS = { quick: 5, processes: 15 };

const STARTS_PROCESSES = /node:child_process|RUN_TYPESCRIPT|support\/(?:bundled|processes|stopped-\w+|two-processes)"/;

/** Starts what calculates until it is stopped. */
function startLoad() {
  const length = Math.max(0, LOAD - jobs() - Math.round(loadavg()[0]));
  const busy = Array.from({ length }, () => spawn(process.execPath, ["-e", "for (;;);"]));
  const stop = () => {
    for (const one of busy) one.kill("SIGKILL");
  };
  process.once("exit", stop);
  return stop;
}

/** @returns how often each test failed */
async function failuresOf(runs) {
  const end = performance.now() + MINUTES * 60_000;
  const failed = new Map();
  let done = 0;
  for (const files of runs) {
    if (performance.now() > end) break;
    const { code, failures } = await runFiles(files, { isParallel: true });
    const names = failures.map(({ file, title }) => `${file}: ${title}`);
    if (code !== 0 && names.length === 0) names.push("a run that names no test");
    for (const name of names) failed.set(name, (failed.get(name) ?? 0) + 1);
    console.log(`\nRun ${++done} of ${runs.length} at load ${loadavg()[0].toFixed(1)}: ${names.length} failed`);
  }
  return { failed, done };
}

async function main() {
  const quick = quickTestFiles();
  const processes = quick.filter((file) => STARTS_PROCESSES.test(readFileSync(file, "utf8")));
  const named = process.argv.slice(2);
  const runs = Object.entries({ quick, processes })
    .filter(([name]) => named.length === 0 || named.includes(name))
    .flatMap(([name, files]) => Array(RUNS[name]).fill(files));
  const stopLoad = startLoad();
  const { failed, done } = await withPostgres(() => failuresOf(runs)).finally(stopLoad);
  console.log(`\n${done} of ${runs.length} runs: ${failed.size} tests failed`);
  for (const [name, count] of [...failed].sort(([, a], [, b]) => b - a)) console.log(`${count} times: ${name}`);
  return failed.size === 0 && done === runs.length ? 0 : 1;
}

exitWith(main());
