#!/usr/bin/env node
// Runs the interop suite: stock x402 packages against this project's gates, agent and Facilitator. Their own locks list
// over 900 MB, so `npm ci` does not install them. Installs them when they are missing or outdated, builds the Next.js
// application, then runs.
const { rmSync } = require("node:fs");
const path = require("node:path");
const { ROOT, installLocked, run } = require("./locked-folder.cjs");
const { exitWith, runInstalled } = require("./test.cjs");

// Each file has stock servers of its own, which answer fifty payers at once.
process.env.TEST_JOBS ??= "2";

// A whole run starts an empty matrix; one of single files puts their rows in the place of their former ones.
if (process.argv.length === 2) rmSync(path.join(ROOT, "out/interop/rows"), { recursive: true, force: true });

const FOLDER = path.join(ROOT, "test/interop");
const APPLICATION = path.join(FOLDER, "next");

function prepare() {
  const installed = installLocked(FOLDER) || installLocked(APPLICATION);
  if (installed !== 0) return installed;
  process.env.NEXT_TELEMETRY_DISABLED = "1";
  return run(process.execPath, ["node_modules/next/dist/bin/next", "build"], APPLICATION);
}

exitWith(runInstalled("interop", process.argv.slice(2), prepare));
