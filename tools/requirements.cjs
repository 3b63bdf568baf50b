/**
 * `node -r ./tools/requirements.cjs ...`: names what is missing on this machine before an import fails without a word
 * about it. Written for any Node: an old one must be able to read it.
 */
"use strict";

const { accessSync, constants, existsSync, statSync } = require("node:fs");
const { homedir } = require("node:os");
const { dirname, join } = require("node:path");

const ROOT = join(__dirname, "..");

/** @returns what is missing and what to do; undefined when nothing is */
function missingRequirement({ version, root, program, written = foldersOfHardhat(process.env) }) {
  const [major, minor] = version.split(".").map(Number);
  if (major < 20 || (major === 20 && minor < 19)) return `Node 20.19 or later is needed; this is ${version}.`;
  if (!existsSync(join(root, "node_modules/esbuild")) || !existsSync(join(root, "node_modules/ts-node"))) {
    return `The packages are not installed: run npm ci in ${root} first.`;
  }
  const needsContracts = /facilitator[\\/]src[\\/]main\.ts$/.test(program || "");
  if (needsContracts && !existsSync(join(root, "sdk/src/chain/generated"))) {
    return `The contracts are not compiled: run npx hardhat compile --quiet in ${root} first.`;
  }
  if (/scripts[\\/]sandbox\.ts$/.test(program || "")) {
    const folder = written.find((each) => !isWritable(each));
    if (folder) {
      const remedy = "set HOME, or XDG_CONFIG_HOME, XDG_DATA_HOME and XDG_CACHE_HOME, to folders that can";
      return `Hardhat keeps files in ${folder}, which cannot be written: ${remedy}.`;
    }
  }
  return undefined;
}

/** Where Hardhat writes on Linux, by the XDG variables or in the home folder. Elsewhere it is not checked. */
function foldersOfHardhat(env) {
  if (process.platform !== "linux") return [];
  const home = homedir();
  const bases = [
    env.XDG_CONFIG_HOME || join(home, ".config"),
    env.XDG_DATA_HOME || join(home, ".local/share"),
    env.XDG_CACHE_HOME || join(home, ".cache"),
  ];
  return bases.map((base) => join(base, "hardhat-nodejs"));
}

/** Whether the folder, or the nearest one above it that exists, takes new files. */
function isWritable(folder) {
  let nearest = folder;
  while (!existsSync(nearest) && dirname(nearest) !== nearest) nearest = dirname(nearest);
  try {
    accessSync(nearest, constants.W_OK | constants.X_OK);
    return statSync(nearest).isDirectory();
  } catch (_error) {
    return false;
  }
}

module.exports = { missingRequirement };

if (require.main !== module) {
  const missing = missingRequirement({ version: process.versions.node, root: ROOT, program: process.argv[1] });
  if (missing) {
    process.stderr.write(`${missing}\n`);
    process.exit(1);
  }
}
