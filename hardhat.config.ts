// Before all other TypeScript: the compiler takes five times as long as esbuild.
import "./tools/typescript.cjs";
import path from "node:path";
import "@nomicfoundation/hardhat-toolbox";
import {
  TASK_COMPILE_SOLIDITY_GET_SOLC_BUILD,
  TASK_COMPILE_SOLIDITY_GET_SOURCE_PATHS,
  TASK_TEST,
  TASK_TEST_GET_TEST_FILES,
} from "hardhat/builtin-tasks/task-names";
import { type HardhatUserConfig, subtask, task } from "hardhat/config";
import type { SolcUserConfig } from "hardhat/types";
import { explorer, liveNetworks, nodeSettings } from "./scripts/networks";
import "./scripts/tasks";

const suites: {
  quickTestFiles(folder: string): string[];
  leftOut(): string;
  jobs(): number;
} = require("./tools/test-files.cjs");

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

// The sandbox's first start compiles what it deploys alone: TURNPIKE_SOURCES lists those files, separated by commas.
subtask(TASK_COMPILE_SOLIDITY_GET_SOURCE_PATHS, async (_args, { config }, runSuper) => {
  const named = process.env.TURNPIKE_SOURCES;
  return named ? named.split(",").map((file) => path.join(config.paths.root, file)) : runSuper();
});

// Named files run as they are. Without names, the files of `npm test` run: those in no suite that has its own command.
subtask(TASK_TEST_GET_TEST_FILES, async ({ testFiles }: { testFiles: string[] }, { config }, runSuper) => {
  if (testFiles.length > 0) return runSuper();
  console.log(suites.leftOut());
  return suites.quickTestFiles(config.paths.tests);
});

// All files together run in TEST_JOBS processes, since most tests wait for blocks.
task(TASK_TEST, async (args: { testFiles: string[]; parallel: boolean }, _hre, runSuper) =>
  runSuper({ ...args, parallel: args.parallel || (args.testFiles.length === 0 && !isDryRun) }),
);

/** Loads the files and lists their tests without running them. */
const isDryRun = process.env.TEST_DRY_RUN === "1";

/** More runs: cheaper calls, and more code. At 2,000 Turnpike has 1,350 bytes more. */
const compiler = (runs: number): SolcUserConfig => ({
  version: SOLC_VERSION,
  settings: {
    viaIR: true,
    optimizer: { enabled: true, runs },
    evmVersion: "cancun",
    metadata: { bytecodeHash: "none" },
    outputSelection: { "*": { "*": ["storageLayout"] } },
  },
});

/** Where tools/coverage.cjs compiles instrumented contracts, so that other suites can run beside it. */
const INSTRUMENTED = { artifacts: "cache/coverage/artifacts", cache: "cache/coverage" };
const isInstrumented = process.env.SOLIDITY_COVERAGE === "true";

const config: HardhatUserConfig = {
  ...(isInstrumented && { paths: INSTRUMENTED }),
  solidity: {
    compilers: [compiler(1_000)],
    // The yardsticks of bench/gas.ts, whose costs must not change with what the product's size allows.
    overrides: {
      "contracts/test/BareLoop.sol": compiler(1_000_000),
      "contracts/test/ProxiedDollar.sol": compiler(1_000_000),
      "contracts/test/TestToken.sol": compiler(1_000_000),
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
    jobs: suites.jobs(),
    dryRun: isDryRun,
    // tools/test.cjs has the failed tests written down, so that it can say them last.
    ...(process.env.TEST_REPORT && { reporter: require.resolve("./tools/test-report.cjs") }),
    // Of parallel files.
    require: [
      "hardhat/register",
      require.resolve("./tools/typescript.cjs"),
      ...(process.env.TEST_TIMES ? [require.resolve("./tools/test-times.cjs")] : []),
    ],
  },
  typechain: {
    outDir: "sdk/src/chain/generated",
    target: "ethers-v6",
    // tools/coverage.cjs compiles instrumented copies, whose bytes nobody else may find.
    dontOverrideCompile: isInstrumented,
  },
};

export default config;
