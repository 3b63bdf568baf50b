/** Wraps Mocha's own reporter and writes failed tests to $TEST_REPORT, one line of JSON each. */
const { appendFileSync } = require("node:fs");
const { relative } = require("node:path");
const { reporters } = require("mocha");

/** Returns the file of a failed test or hook; a suite knows it when the hook does not. */
function fileOf(runnable) {
  for (let at = runnable; at; at = at.parent) if (at.file) return relative(process.cwd(), at.file);
  return null;
}

module.exports = class extends reporters.Spec {
  constructor(runner, options) {
    super(runner, options);
    runner.on("fail", (test, error) => {
      const failure = { file: fileOf(test), title: test.fullTitle(), error: String(error?.stack ?? error) };
      appendFileSync(process.env.TEST_REPORT, `${JSON.stringify(failure)}\n`);
    });
  }
};
