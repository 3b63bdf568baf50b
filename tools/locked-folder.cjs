/** Installs a test folder with its own packages and lock, which are too large for everybody's `npm ci`. */
const { spawnSync } = require("node:child_process");
const { existsSync, readFileSync, writeFileSync } = require("node:fs");
const path = require("node:path");

const ROOT = path.resolve(__dirname, "..");

/** @returns the exit status; 1 when the command cannot be started */
function run(command, args, cwd = ROOT) {
  const { status, error } = spawnSync(command, args, { cwd, stdio: "inherit" });
  if (error) process.stderr.write(`${command} could not be started: ${error.message}\n`);
  return status ?? 1;
}

/** Installs what the folder's lock lists, unless that is already done. @returns the exit status */
function installLocked(folder) {
  const lock = readFileSync(path.join(folder, "package-lock.json"), "utf8");
  // A copy of the lock that the installed packages came from.
  const stamp = path.join(folder, "node_modules/.turnpike-lock.json");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === lock) return 0;
  const status = run("npm", ["ci", "--no-audit", "--no-fund", "--ignore-scripts"], folder);
  if (status === 0) writeFileSync(stamp, lock);
  return status;
}

module.exports = { ROOT, installLocked, run };
