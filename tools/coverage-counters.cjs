/**
 * Corrects how solidity-coverage reads its counters from the EVM's stack; loaded before Hardhat by coverage.cjs. A
 * counter is 8 bytes, alone or padded on the right to 32. A stack item has no leading zeros, and the package restores
 * one zero at most, so it misses a counter that begins with a zero byte. Counters depend on the checkout's path.
 *
 * It also runs the chosen tests alone, or chooses them.
 */
const { readFileSync, writeFileSync } = require("node:fs");
const { relative } = require("node:path");
const Runner = require("mocha/lib/runner");
const DataCollector = require("solidity-coverage/lib/collector.js");

const DIGITS = 16;

const WORD_DIGITS = 64;

const normalize = DataCollector.prototype._normalizeHash;

/** Every counter, with its hits. */
let counters = {};

DataCollector.prototype._normalizeHash = function (item) {
  counters = this.instrumentationData;
  const digits = item.slice(2);
  const counter = `0x${digits.padStart(digits.length > DIGITS ? WORD_DIGITS : DIGITS, "0").slice(0, DIGITS)}`;
  return counter in this.instrumentationData ? counter : normalize.call(this, item);
};

/** Notes which counters each test raises, and the processor's time that it takes. */
function note(runner, costs) {
  const seen = new Map();
  let spentMs = processorMs();
  runner.on("test end", (test) => {
    const now = processorMs();
    const raised = Object.keys(counters).filter((each) => counters[each].hits > (seen.get(each) ?? 0));
    for (const each of raised) seen.set(each, counters[each].hits);
    const title = test.fullTitle();
    costs.push({ file: relative(process.cwd(), test.file), title, ms: Math.max(1, now - spentMs), raised });
    spentMs = now;
  });
}

function processorMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** Returns the tests that raise what all raise, at little cost. */
function choose(costs) {
  const left = new Set(costs.flatMap(({ raised }) => raised));
  const chosen = [];
  while (left.size > 0) {
    const worth = ({ raised, ms }) => raised.filter((each) => left.has(each)).length / ms;
    const best = costs.reduce((one, other) => (worth(other) > worth(one) ? other : one));
    for (const each of best.raised) left.delete(each);
    chosen.push(best);
  }
  const byFile = {};
  for (const { file, title } of costs.filter((test) => chosen.includes(test)))
    byFile[file] = [...(byFile[file] ?? []), title];
  return byFile;
}

const { run } = Runner.prototype;
Runner.prototype.run = function (...args) {
  const { COVERAGE_CHOOSE: home, COVERAGE_TESTS: chosen } = process.env;
  if (chosen) {
    const titles = new Set(Object.values(JSON.parse(readFileSync(chosen, "utf8"))).flat());
    this.grep({ test: (title) => titles.has(title) }, false);
  }
  if (home) {
    const costs = [];
    note(this, costs);
    this.on("end", () => writeFileSync(home, `${JSON.stringify(choose(costs), null, 2)}\n`));
  }
  return run.apply(this, args);
};
