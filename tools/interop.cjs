#!/usr/bin/env node
// Runs the interop suite: stock x402 packages against this project's gates, agent and Facilitator. Their own lock lists
// over 500 MB, so `npm ci` does not install them. Installs them when they are missing or outdated, then runs.
const { readdirSync } = require("node:fs");
const path = require("node:path");
const { ROOT, installLocked, runTests } = require("./locked-folder.cjs");

const FOLDER = path.join(ROOT, "test/interop");

function main(args) {
  const installed = installLocked(FOLDER);
  if (installed !== 0) return installed;
  const all = readdirSync(FOLDER).filter((name) => name.endsWith(".ts"));
  return runTests(args.length > 0 ? args : all.map((name) => path.join("test/interop", name)));
}

process.exitCode = main(process.argv.slice(2));
