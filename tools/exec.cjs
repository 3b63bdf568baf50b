#!/usr/bin/env node
// Does on Windows what `exec` does in a POSIX shell, so that an npm script can begin with it everywhere. With it, npm's
// child is the program itself. Debian's sh would not pass on the SIGINT that npm forwards to it.
const { spawnSync } = require("node:child_process");

const [command, ...args] = process.argv.slice(2);
process.exitCode = spawnSync(command, args, { stdio: "inherit" }).status ?? 1;
