import { expect } from "chai";
import fc from "fast-check";
import { ConfigError, formatAmount, parseAmount, toAmount, UINT256_MAX } from "turnpike/protocol";

describe("protocol > amounts", () => {
  it("reads exactly the canonical decimal integers below 2^256", () => {
    fc.assert(
      fc.property(fc.bigInt(0n, UINT256_MAX), (amount) => {
        expect(parseAmount(amount.toString())).to.equal(amount);
      }),
    );
    for (const text of [
      "",
      "-1",
      "+1",
      "01",
      "1.0",
      "1e6",
      "0x10",
      " 1",
      "1 ",
      "١",
      (UINT256_MAX + 1n).toString(),
      5,
      null,
    ]) {
      expect(parseAmount(text), String(text)).to.equal(undefined);
    }
  });

  it("refuses fractions, negatives and unsafe integers by the name of the field", () => {
    for (const value of [0.5, -1, Number.NaN, 2 ** 53, -1n, UINT256_MAX + 1n, "1.5", "abc"]) {
      expect(() => toAmount(value, "pricing[0].amount"), String(value)).to.throw(ConfigError, "pricing[0].amount");
    }
    expect(toAmount(500_000, "amount")).to.equal(500_000n);
    expect(toAmount("500000", "amount")).to.equal(500_000n);
  });

  it("writes whole units for people without float error", () => {
    expect(formatAmount(1_500_000n)).to.equal("1.50");
    expect(formatAmount(1n)).to.equal("0.000001");
    expect(formatAmount(-1_000_000n)).to.equal("-1.00");
    expect(formatAmount(10n ** 30n + 1n, 18)).to.equal("1000000000000.000000000000000001");
    expect(formatAmount(7n, 0)).to.equal("7");
  });
});
