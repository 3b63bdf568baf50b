#!/usr/bin/env node
// Builds the SDK and its documentation before npm packs or publishes it: an unbuilt package is empty, and npm reports no
// error. Compiles the contracts first, because the SDK imports the types that the compiler writes. Prints to stderr only:
// stdout is npm's.
require("./requirements.cjs");

const { spawnSync } = require("node:child_process");
const { existsSync, rmSync } = require("node:fs");
const { join } = require("node:path");

const ROOT = join(__dirname, "..");
const SDK = join(ROOT, "sdk");
const DIST = join(SDK, "dist");

/** Resolves a program's file, or exits with the remedy. */
function programOf(name, file) {
  try {
    return join(require.resolve(`${name}/package.json`, { paths: [SDK] }), "..", file);
  } catch {
    process.stderr.write(`The package ${name} is not installed: run npm ci in ${ROOT} first.\n`);
    return process.exit(1);
  }
}

function run(program, args, cwd) {
  const { status, error } = spawnSync(process.execPath, [program, ...args], { cwd, stdio: ["ignore", 2, 2] });
  if (error) process.stderr.write(`${program} could not be started: ${error.message}\n`);
  if (status !== 0) process.exit(status ?? 1);
}

const hardhat = programOf("hardhat", "internal/cli/cli.js");
const tsdown = programOf("tsdown", "dist/run.mjs");
rmSync(DIST, { recursive: true, force: true });
run(hardhat, ["compile", "--quiet"], ROOT);
// `npm run build -w sdk` shows its warnings.
run(tsdown, ["--logLevel", "error"], SDK);
run(join(__dirname, "sandbox-program.cjs"), [join(DIST, "sandbox")], ROOT);
run(join(__dirname, "docs.cjs"), ["--package"], ROOT);
if (!existsSync(join(DIST, "index.js"))) {
  process.stderr.write(`The build wrote no ${join(DIST, "index.js")}: the package would be empty.\n`);
  process.exit(1);
}
