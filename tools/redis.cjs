#!/usr/bin/env node
// Runs test/redis on a real Redis: finds `redis-server`, and installs it where apt can. The suite's clients of `redis`
// have a lock of their own, and are installed when they are missing or outdated.
const { spawnSync } = require("node:child_process");
const { readdirSync } = require("node:fs");
const path = require("node:path");
const { ROOT, installLocked, runTests } = require("./locked-folder.cjs");

const FOLDER = path.join("test", "redis");

const isThere = () => spawnSync("redis-server", ["--version"]).status === 0;

function install() {
  const isRoot = process.getuid?.() === 0;
  if (isRoot) spawnSync("apt-get", ["install", "-y", "--no-install-recommends", "redis-server"], { stdio: "ignore" });
  return isThere();
}

function main(args) {
  if (!isThere() && !install()) {
    process.stderr.write("These tests need redis-server in PATH: on Debian, apt-get install -y redis-server.\n");
    return 1;
  }
  const installed = installLocked(path.join(ROOT, FOLDER));
  if (installed !== 0) return installed;
  const files = args.length > 0 ? args : readdirSync(path.join(ROOT, FOLDER)).filter((name) => name.endsWith(".ts"));
  return runTests(files.map((file) => (file.startsWith(FOLDER) ? file : path.join(FOLDER, file))));
}

process.exitCode = main(process.argv.slice(2));
