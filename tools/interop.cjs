#!/usr/bin/env node
// The interop suite: stock x402 packages from a lock of their own (over 500 MB, so that `npm ci` need not bring them)
// against this project's gates, agent and Facilitator. Installs them where they are missing or outdated, then runs.
const { spawnSync } = require("node:child_process");
const { existsSync, readdirSync, readFileSync, writeFileSync } = require("node:fs");
const path = require("node:path");

const FOLDER = path.resolve(__dirname, "../test/interop");
const LOCK = path.join(FOLDER, "package-lock.json");
/** a copy of the lock that the installed packages came from */
const STAMP = path.join(FOLDER, "node_modules/.turnpike-lock.json");

function run(command, args, cwd) {
  const { status, error } = spawnSync(command, args, { cwd, stdio: "inherit" });
  if (error) process.stderr.write(`${command} could not be started: ${error.message}\n`);
  return status ?? 1;
}

function install() {
  const lock = readFileSync(LOCK, "utf8");
  if (existsSync(STAMP) && readFileSync(STAMP, "utf8") === lock) return 0;
  const status = run("npm", ["ci", "--no-audit", "--no-fund", "--ignore-scripts"], FOLDER);
  if (status === 0) writeFileSync(STAMP, lock);
  return status;
}

function main(args) {
  const installed = install();
  if (installed !== 0) return installed;
  const hardhat = require.resolve("hardhat/internal/cli/cli.js");
  const all = readdirSync(FOLDER).filter((name) => name.endsWith(".ts"));
  const files = args.length > 0 ? args : all.map((name) => path.join("test/interop", name));
  return run(process.execPath, [hardhat, "test", ...files], path.resolve(__dirname, ".."));
}

process.exitCode = main(process.argv.slice(2));
