/**
 * Writes facilitator/src/chain/contract-code.json: the hashes of the runtime code of this release's contracts, and the
 * creation code of the lenses. Run it after a change and compile of the contracts:
 * node facilitator/tools/contract-code.cjs
 */
const { readFileSync, writeFileSync } = require("node:fs");
const { join, resolve } = require("node:path");
const { keccak256 } = require("ethers");

const ROOT = resolve(__dirname, "../..");
const FILE = join(ROOT, "facilitator/src/chain/contract-code.json");

/** Returns what the compiler wrote about the contract's code. */
function compiled(name) {
  const folder = join(ROOT, `artifacts/contracts/${name}.sol`);
  const { buildInfo } = JSON.parse(readFileSync(join(folder, `${name}.dbg.json`), "utf8"));
  const build = JSON.parse(readFileSync(resolve(folder, buildInfo), "utf8"));
  return build.output.contracts[`contracts/${name}.sol`][name].evm;
}

/** EIP-712 stores chain id and address in the code: those bytes are left out. */
function codeOf(name) {
  const { deployedBytecode } = compiled(name);
  const immutables = Object.values(deployedBytecode.immutableReferences ?? {})
    .flat()
    .map(({ start, length }) => [start, length])
    .sort(([a], [b]) => a - b);
  return { hash: keccak256(`0x${deployedBytecode.object}`), immutables };
}

function text() {
  const creationOf = (name) => ({ creationCode: `0x${compiled(name).bytecode.object}` });
  const code = {
    turnpike: codeOf("Turnpike"),
    batchSettler: codeOf("BatchSettler"),
    accountLens: creationOf("AccountLens"),
    walletLens: creationOf("WalletLens"),
  };
  return `${JSON.stringify(code, null, 2)}\n`;
}

module.exports = { text, FILE };

if (require.main === module) writeFileSync(FILE, text());
