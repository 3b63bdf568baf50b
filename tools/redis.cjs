#!/usr/bin/env node
// Runs test/redis on a real Redis: finds `redis-server`, and installs it where apt can. The suite's clients of `redis`
// have a lock of their own, and are installed when they are missing or outdated.
const { spawnSync } = require("node:child_process");
const path = require("node:path");
const { ROOT, installLocked } = require("./locked-folder.cjs");
const { exitWith, runInstalled } = require("./test.cjs");

const isThere = () => spawnSync("redis-server", ["--version"]).status === 0;

function install() {
  const isRoot = process.getuid?.() === 0;
  if (isRoot) spawnSync("apt-get", ["install", "-y", "--no-install-recommends", "redis-server"], { stdio: "ignore" });
  return isThere();
}

function prepare() {
  if (isThere() || install()) return installLocked(path.join(ROOT, "test/redis"));
  process.stderr.write("These tests need redis-server in PATH: on Debian, apt-get install -y redis-server.\n");
  return 1;
}

exitWith(runInstalled("redis", process.argv.slice(2), prepare));
