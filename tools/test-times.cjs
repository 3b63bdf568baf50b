/** Mocha's root hooks: writes how long each file's tests took to $TEST_TIMES, one line of JSON each. */
const { appendFileSync } = require("node:fs");
const { relative } = require("node:path");

let begunMs = 0;

exports.mochaHooks = {
  beforeAll() {
    begunMs = performance.now();
  },
  afterAll() {
    const file = this.test.parent.suites[0]?.file;
    const seconds = (performance.now() - begunMs) / 1_000;
    if (file)
      appendFileSync(process.env.TEST_TIMES, `${JSON.stringify({ file: relative(process.cwd(), file), seconds })}\n`);
  },
};
