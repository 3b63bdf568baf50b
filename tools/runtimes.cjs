#!/usr/bin/env node
// Runs a gate and an agent in Node 20, 22 and 24, Bun, Deno and workerd, which a lock of their own lists: over 700 MB,
// so `npm ci` does not install them. Installs them when they are missing or outdated, then runs. Linux on x64 alone.
const path = require("node:path");
const { ROOT, installLocked } = require("./locked-folder.cjs");
const { exitWith, runInstalled } = require("./test.cjs");

exitWith(runInstalled("runtimes", process.argv.slice(2), () => installLocked(path.join(ROOT, "test/runtimes"))));
