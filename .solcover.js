// Read by solidity-coverage; run through tools/coverage.cjs, which also judges the outcome.
module.exports = {
  skipFiles: ["test", "interfaces"],
  // viaIR, which the contracts need, and an optimizer that removes none of the counters.
  configureYulOptimizer: true,
  istanbulReporter: ["html", "json-summary"],
  // Each step is traced.
  mocha: { timeout: 600_000 },
};
