// Builds what the package holds, before npm packs or publishes it: the program and the dashboard. Compiles the contracts
// first, whose types the program is built with. Prints to stderr only: stdout is npm's.
require("../../tools/requirements.cjs");

const { execFileSync } = require("node:child_process");
const { rmSync } = require("node:fs");
const { join, resolve } = require("node:path");

const FOLDER = resolve(__dirname, "..");
const COMPILER = require.resolve("hardhat/internal/cli/cli.js");

rmSync(join(FOLDER, "dist"), { recursive: true, force: true });
rmSync(join(FOLDER, "dashboard/dist"), { recursive: true, force: true });
for (const program of [
  [COMPILER, "compile", "--quiet"],
  [join(__dirname, "build.cjs")],
  [join(__dirname, "build-dashboard.cjs")],
])
  execFileSync(process.execPath, program, { cwd: resolve(FOLDER, ".."), stdio: ["ignore", 2, 2] });
