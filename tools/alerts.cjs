#!/usr/bin/env node
// Tests the alert rules with Prometheus' promtool: finds it, and installs it where apt can.
const { spawnSync } = require("node:child_process");
const path = require("node:path");

const FOLDER = path.join("facilitator", "monitoring");

const isThere = () => spawnSync("promtool", ["--version"]).status === 0;

function install() {
  const isRoot = process.getuid?.() === 0;
  if (isRoot) spawnSync("apt-get", ["install", "-y", "--no-install-recommends", "prometheus"], { stdio: "ignore" });
  return isThere();
}

const promtool = (...args) => spawnSync("promtool", args, { cwd: FOLDER, stdio: "inherit" }).status ?? 1;

function main() {
  if (!isThere() && !install()) {
    process.stderr.write("These tests need promtool in PATH: on Debian, apt-get install -y prometheus.\n");
    return 1;
  }
  return promtool("check", "config", "prometheus.yaml") || promtool("test", "rules", "alerts.test.yaml");
}

process.exitCode = main();
