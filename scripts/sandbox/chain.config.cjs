// Configures Hardhat for a chain only: it starts in a third of the time without the toolbox. The root is the project's,
// so that the node finds the artifacts and names custom errors in its messages.
const path = require("node:path");
require("../../tools/typescript.cjs");
const { nodeSettings } = require("../networks.ts");

module.exports = {
  solidity: "0.8.28",
  paths: { root: path.resolve(__dirname, "../..") },
  networks: { hardhat: nodeSettings(process.env) },
};
