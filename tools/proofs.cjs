#!/usr/bin/env node
// Runs the proofs of test/proofs: lemmas on the compiled contracts, by a solver. Its package is installed when it is
// missing or outdated. Arguments choose lemmas by a part of their name.
const path = require("node:path");
const { ROOT, installLocked, run } = require("./locked-folder.cjs");

const FOLDER = path.join(ROOT, "test/proofs");

const installed = installLocked(FOLDER);
process.exitCode =
  installed === 0 ? run(process.execPath, [path.join(FOLDER, "prove.cjs"), ...process.argv.slice(2)]) : installed;
