#!/usr/bin/env node
// Tests the gate in frameworks that are too large for everybody's `npm ci`, with their own lock: a real Next.js
// application, and middleware that changes how answers are written. Installs it when it is missing or outdated, adds the
// package as it is published, then runs.
const { cpSync, existsSync, rmSync, symlinkSync } = require("node:fs");
const path = require("node:path");
const { ROOT, installLocked, run } = require("./locked-folder.cjs");
const { exitWith, runInstalled } = require("./test.cjs");

const FOLDER = path.join(ROOT, "test/frameworks");
const INSTALLED = path.join(FOLDER, "node_modules/turnpike");

function prepare() {
  const prepared = installLocked(FOLDER) || run("npm", ["run", "build", "-w", "sdk"]);
  if (prepared !== 0) return prepared;
  rmSync(INSTALLED, { recursive: true, force: true });
  for (const part of ["package.json", "dist"]) {
    cpSync(path.join(ROOT, "sdk", part), path.join(INSTALLED, part), { recursive: true });
  }
  // Its own dependencies that are not the workspace's.
  const own = path.join(ROOT, "sdk/node_modules");
  if (existsSync(own)) symlinkSync(own, path.join(INSTALLED, "node_modules"), "dir");
  return run(process.execPath, [path.join(FOLDER, "node_modules/next/dist/bin/next"), "build"], FOLDER);
}

exitWith(runInstalled("frameworks", process.argv.slice(2), prepare));
