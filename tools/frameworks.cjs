#!/usr/bin/env node
// The gate inside frameworks that are too large for everybody's `npm ci`: a real Next.js application, with a lock of its
// own. Installs it where it is missing or outdated, puts the package beside it as it is published, then runs.
const { spawnSync } = require("node:child_process");
const { cpSync, existsSync, readFileSync, rmSync, symlinkSync, writeFileSync } = require("node:fs");
const path = require("node:path");

const ROOT = path.resolve(__dirname, "..");
const FOLDER = path.join(ROOT, "test/frameworks");
const LOCK = path.join(FOLDER, "package-lock.json");
const INSTALLED = path.join(FOLDER, "node_modules/turnpike");
/** a copy of the lock that the installed packages came from */
const STAMP = path.join(FOLDER, "node_modules/.turnpike-lock.json");

function run(command, args, cwd = ROOT) {
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

function main() {
  const prepared = install() || run("npm", ["run", "build", "-w", "sdk"]);
  if (prepared !== 0) return prepared;
  rmSync(INSTALLED, { recursive: true, force: true });
  for (const part of ["package.json", "dist"]) {
    cpSync(path.join(ROOT, "sdk", part), path.join(INSTALLED, part), { recursive: true });
  }
  // Its own dependencies, where they are not the workspace's.
  const own = path.join(ROOT, "sdk/node_modules");
  if (existsSync(own)) symlinkSync(own, path.join(INSTALLED, "node_modules"), "dir");
  const built = run(process.execPath, [path.join(FOLDER, "node_modules/next/dist/bin/next"), "build"], FOLDER);
  if (built !== 0) return built;
  return run(process.execPath, [require.resolve("hardhat/internal/cli/cli.js"), "test", "test/frameworks/next.ts"]);
}

process.exitCode = main();
