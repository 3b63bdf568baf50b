/**
 * `node -r ./tools/requirements.cjs ...`: names what is missing on this machine before an import fails without a word
 * about it. Written for any Node: an old one must be able to read it.
 */
"use strict";

const { existsSync } = require("node:fs");
const { join } = require("node:path");

const ROOT = join(__dirname, "..");

/** @returns what is missing and what to do; undefined when nothing is */
function missingRequirement({ version, root, program }) {
  const [major, minor] = version.split(".").map(Number);
  if (major < 20 || (major === 20 && minor < 19)) return `Node 20.19 or later is needed; this is ${version}.`;
  if (!existsSync(join(root, "node_modules/esbuild")) || !existsSync(join(root, "node_modules/ts-node"))) {
    return `The packages are not installed: run npm ci in ${root} first.`;
  }
  const needsContracts = /facilitator[\\/]src[\\/]main\.ts$/.test(program || "");
  if (needsContracts && !existsSync(join(root, "sdk/src/chain/generated"))) {
    return `The contracts are not compiled: run npx hardhat compile --quiet in ${root} first.`;
  }
  return undefined;
}

module.exports = { missingRequirement };

if (require.main !== module) {
  const missing = missingRequirement({ version: process.versions.node, root: ROOT, program: process.argv[1] });
  if (missing) {
    process.stderr.write(`${missing}\n`);
    process.exit(1);
  }
}
