import "tsconfig-paths/register";
import "@nomicfoundation/hardhat-toolbox";
import { TASK_COMPILE_SOLIDITY_GET_SOLC_BUILD, TASK_TEST_GET_TEST_FILES } from "hardhat/builtin-tasks/task-names";
import { type HardhatUserConfig, subtask } from "hardhat/config";
import { explorer, liveNetworks, nodeSettings } from "./scripts/networks";
import "./scripts/tasks";

const SOLC_VERSION = "0.8.37";

// The compiler comes from the npm package `solc`, pinned by the lock file: offline and the same everywhere.
// SOLC_NATIVE=1 lets Hardhat download the native one instead.
subtask(TASK_COMPILE_SOLIDITY_GET_SOLC_BUILD, async (args: { solcVersion: string }, _hre, runSuper) => {
  if (process.env.SOLC_NATIVE === "1" || args.solcVersion !== SOLC_VERSION) return runSuper();
  return {
    compilerPath: require.resolve("solc/soljson.js"),
    isSolcJs: true,
    version: SOLC_VERSION,
    longVersion: require("solc").version().replace(".Emscripten.clang", ""),
  };
});

// What stands in a folder `support` serves tests, some of it as a program of its own; it is none itself.
subtask(TASK_TEST_GET_TEST_FILES, async (_args, _hre, runSuper) => {
  const files: string[] = await runSuper();
  return files.filter((file) => !/[\\/]support[\\/]/.test(file));
});

const config: HardhatUserConfig = {
  solidity: {
    version: SOLC_VERSION,
    settings: {
      viaIR: true,
      optimizer: { enabled: true, runs: 1_000_000 },
      evmVersion: "cancun",
      metadata: { bytecodeHash: "none" },
      outputSelection: { "*": { "*": ["storageLayout"] } },
    },
  },
  networks: {
    hardhat: nodeSettings(process.env),
    ...liveNetworks(process.env),
  },
  etherscan: explorer(process.env),
  mocha: {
    // A limit ends a hang; how fast something is, no test says.
    timeout: 120_000,
    // tools/test.cjs has the failed tests written down, so that it can say them last.
    ...(process.env.TEST_REPORT && { reporter: require.resolve("./tools/test-report.cjs") }),
  },
  typechain: {
    outDir: "sdk/src/chain/generated",
    target: "ethers-v6",
    // tools/coverage.cjs compiles instrumented copies, whose bytes nobody else may find.
    dontOverrideCompile: process.env.SOLIDITY_COVERAGE === "true",
  },
};

export default config;
