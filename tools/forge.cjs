#!/usr/bin/env node
// Runs Foundry's forge with the given arguments. The npm package's own launcher always exits 0, so this calls the
// platform's binary and passes its exit code on. After a full `test` it also counts the premises: a law that was never
// tested must not pass as one that held.
const { spawn } = require("node:child_process");
const { mkdirSync, readdirSync, readFileSync, rmSync } = require("node:fs");
const { join } = require("node:path");

const ROOT = join(__dirname, "..");
const PREMISES = join(ROOT, "out", "premises");
const PROFILE = process.env.FOUNDRY_PROFILE ?? "default";
/** How often each premise must come true, over all sequences. */
const LEAST = PROFILE === "deep" ? 1_000 : 8;
/** Sequences after whose acts all laws are checked, and runs of a fuzz test; those of foundry.toml in the other profiles. */
const JUDGED = PROFILE === "default" ? { FOUNDRY_INVARIANT_RUNS: "32", FOUNDRY_FUZZ_RUNS: "64" } : {};
/** Sequences in which the model and the witness alone look at each act. */
const WITNESSED = { deep: "12000", lite: "16" }[PROFILE] ?? "100";

/** Returns the binary of this platform, or undefined when npm has none. */
function findForge() {
  const arch = process.arch === "x64" ? "amd64" : process.arch;
  const platform = process.platform === "win32" ? "win32" : process.platform;
  const file = process.platform === "win32" ? "forge.exe" : "forge";
  try {
    return require.resolve(`@foundry-rs/forge-${platform}-${arch}/bin/${file}`);
  } catch (cause) {
    if (cause.code === "MODULE_NOT_FOUND" || cause.code === "ERR_PACKAGE_PATH_NOT_EXPORTED") return undefined;
    throw cause;
  }
}

/** Counts how often each premise was true, over all runs: lines of `name=count;`, appended by concurrent campaigns. */
function countPremises() {
  const counts = new Map();
  for (const file of readdirSync(PREMISES)) {
    for (const [, name, count] of readFileSync(join(PREMISES, file), "utf8").matchAll(/([\w ]+)=(\d+);/g)) {
      counts.set(name, (counts.get(name) ?? 0) + Number(count));
    }
  }
  return counts;
}

/** Prints the premises and returns whether each was true often enough. */
function judgePremises() {
  const counts = countPremises();
  const rare = [...counts].filter(([, count]) => count < LEAST);
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  console.log(`\nPremises of the laws: ${counts.size}, which came true ${total} times in all`);
  for (const [name, count] of [...counts].sort((a, b) => a[1] - b[1]))
    console.log(`  ${String(count).padStart(9)}  ${name}`);
  for (const [name, count] of rare)
    console.error(`Premise "${name}" came true ${count} times; at least ${LEAST} are needed.`);
  return counts.size > 0 && rare.length === 0;
}

/** Runs forge. @returns its exit status */
function run(forge, args, env = {}) {
  return new Promise((resolve) => {
    const child = spawn(forge, args, { stdio: "inherit", cwd: ROOT, env: { ...process.env, ...env } });
    child.on("error", (error) => console.error(`forge could not be started: ${error.message}`));
    child.on("close", (code, signal) => {
      if (signal !== null) console.error(`forge was ended by ${signal}`);
      resolve(code ?? 1);
    });
  });
}

/**
 * All tests but each law's own invariant, which would run the same sequences again. Two at a time: what checks all laws
 * takes as long as the rest.
 */
async function runWhole(forge, args) {
  const built = await run(forge, ["build"]);
  if (built !== 0) return built;
  const codes = await Promise.all([
    run(forge, [...args, "--no-match-test", "^invariant_(L|witness)"], JUDGED),
    run(forge, [...args, "--match-test", "^invariant_witness"], { FOUNDRY_INVARIANT_RUNS: WITNESSED }),
  ]);
  const held = codes.every((code) => code === 0);
  return held && (PROFILE === "lite" || judgePremises()) ? 0 : 1;
}

async function main(args) {
  const forge = findForge();
  if (forge === undefined) {
    console.error(
      `Foundry has no npm package for ${process.platform}-${process.arch}: the laws in test/laws were not run.`,
    );
    return process.env.CI === "true" ? 1 : 0;
  }
  // Only a whole run with its full number of sequences is significant for the premises.
  const whole = args[0] === "test" && args.every((arg) => !/^--(no-)?match|^--(mt|mc|mp|list|rerun)/.test(arg));
  rmSync(PREMISES, { recursive: true, force: true });
  mkdirSync(PREMISES, { recursive: true });
  return whole ? runWhole(forge, args) : run(forge, args);
}

main(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
});
