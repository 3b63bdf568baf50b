/**
 * Runs all tests. Most tests wait for blocks rather than compute, so two halves run in parallel; the laws, which use
 * all cores, come last. With arguments it is `hardhat test` with those arguments.
 *
 * The halves share two cores with each other and with other load, so a test that waits for another process can run out
 * of time. The files of failed tests are therefore run once more, alone. A test that fails again has failed. One that
 * passes alone is listed at the end as unsteady, with its error. It is a bug of the test or a race in the code, and
 * must be investigated. STRICT=1 counts it as failed.
 */
const { spawn } = require("node:child_process");
const { mkdtempSync, readFileSync, rmSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const { leftOut, quickTestFiles, SLOW } = require("./test-files.cjs");

const HARDHAT = require.resolve("hardhat/internal/cli/cli.js");

/** More unsteady files than this are not caused by the machine's load. */
const UNSTEADY_AT_MOST = 3;

/** Runs a program; its output is shown at once, or kept until it has ended. */
function run(args, { shown, env }) {
  return new Promise((resolve) => {
    const stdio = shown ? "inherit" : ["ignore", "pipe", "pipe"];
    const child = spawn(process.execPath, args, { stdio, env: { ...process.env, ...env } });
    const kept = [];
    child.stdout?.on("data", (chunk) => kept.push(chunk));
    child.stderr?.on("data", (chunk) => kept.push(chunk));
    child.on("close", (code) => {
      process.stdout.write(Buffer.concat(kept));
      resolve(code ?? 1);
    });
  });
}

/** Runs these test files; returns the exit status and the failed tests. */
async function runFiles(files, { shown }) {
  const folder = mkdtempSync(join(tmpdir(), "turnpike-test-report-"));
  const report = join(folder, "failures");
  writeFileSync(report, "");
  try {
    const code = await run([HARDHAT, "test", "--no-compile", ...files], { shown, env: { TEST_REPORT: report } });
    const lines = readFileSync(report, "utf8").split("\n").filter(Boolean);
    return { code, failures: lines.map((line) => JSON.parse(line)) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function show(title, failures) {
  if (failures.length === 0) return;
  console.log(`\n${title}`);
  for (const { file, title: test, error } of failures)
    console.log(`\n  ${file}: ${test}\n    ${error.replaceAll("\n", "\n    ")}`);
}

/** Combines the halves' results: a half that failed without naming a test (it crashed, or did not load) has failed. */
async function verdict(halves) {
  const failed = halves.filter(({ code }) => code !== 0);
  if (failed.length === 0) return 0;
  const failures = failed.flatMap((half) => half.failures);
  const files = [...new Set(failures.map(({ file }) => file))];
  const worthASecondRun =
    process.env.STRICT !== "1" &&
    files.length <= UNSTEADY_AT_MOST &&
    failed.every((half) => half.failures.length > 0) &&
    files.every((file) => file !== null);
  if (!worthASecondRun) {
    show("FAILED:", failures);
    return 1;
  }
  console.log(`\nOnce more, alone: ${files.join(" ")}`);
  const alone = await runFiles(files, { shown: true });
  if (alone.code !== 0) {
    show("FAILED:", failures);
    show("FAILED again, alone:", alone.failures);
    return 1;
  }
  show("UNSTEADY: failed beside other tests and passed alone. To be looked at:", failures);
  return 0;
}

async function main(args) {
  if (args.length > 0) return run([HARDHAT, "test", ...args], { shown: true });
  const compiled = await run([HARDHAT, "compile", "--quiet"], { shown: true });
  if (compiled !== 0) return compiled;
  console.log(leftOut());
  console.log(`Tests that take minutes each run by their own commands: ${Object.values(SLOW).join(", ")}.`);
  const files = quickTestFiles();
  const isService = (file) => file.startsWith(join("test", "facilitator"));
  const halves = await Promise.all([
    runFiles(
      files.filter((file) => !isService(file)),
      { shown: true },
    ),
    runFiles(files.filter(isService), { shown: false }),
  ]);
  const laws = await run([join(__dirname, "forge.cjs"), "test"], { shown: true });
  const tests = await verdict(halves);
  return laws !== 0 ? laws : tests;
}

main(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
});
