/**
 * Corrects how solidity-coverage reads its counters from the EVM's stack; loaded before Hardhat by coverage.cjs. A
 * counter is 8 bytes, alone or padded on the right to 32. A stack item has no leading zeros, and the package restores
 * one zero at most, so it misses a counter that begins with a zero byte. Counters depend on the checkout's path.
 */
const DataCollector = require("solidity-coverage/lib/collector.js");

const DIGITS = 16;

const WORD_DIGITS = 64;

const normalize = DataCollector.prototype._normalizeHash;

DataCollector.prototype._normalizeHash = function (item) {
  const digits = item.slice(2);
  const counter = `0x${digits.padStart(digits.length > DIGITS ? WORD_DIGITS : DIGITS, "0").slice(0, DIGITS)}`;
  return counter in this.instrumentationData ? counter : normalize.call(this, item);
};
