#!/usr/bin/env node
// Runs test/redis on a real Redis: finds `redis-server`, and installs it where apt can.
const { spawnSync } = require("node:child_process");
const { readdirSync } = require("node:fs");
const path = require("node:path");

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
  const files = args.length > 0 ? args : readdirSync(FOLDER).filter((name) => name.endsWith(".ts"));
  const paths = files.map((file) => (file.startsWith(FOLDER) ? file : path.join(FOLDER, file)));
  const hardhat = require.resolve("hardhat/internal/cli/cli.js");
  return spawnSync(process.execPath, [hardhat, "test", ...paths], { stdio: "inherit" }).status ?? 1;
}

process.exitCode = main(process.argv.slice(2));
