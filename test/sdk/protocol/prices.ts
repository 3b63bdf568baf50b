import { expect } from "chai";
import fc from "fast-check";
import { ConfigError, findNetwork, formatAmount, parsePrice } from "turnpike/protocol";

const USDC = { decimals: 6, symbol: "USDC", currency: "USD" } as const;
const EURC = { decimals: 6, symbol: "EURC" } as const;

describe("protocol > prices", () => {
  it("reads dollars and the token's own symbol exactly", () => {
    for (const [price, amount] of [
      ["$0.05", 50_000n],
      ["$ 0.05", 50_000n],
      ["0.05", 50_000n],
      ["0.05 USD", 50_000n],
      ["$0.05 usdc", 50_000n],
      ["0.05 USDC", 50_000n],
      [" $1 ", 1_000_000n],
      ["$0.000001", 1n],
      ["$0.1", 100_000n],
      ["$9007199254740993.000001", 9_007_199_254_740_993_000_001n],
    ] as const) {
      expect(parsePrice(price, USDC, "price"), price).to.equal(amount);
    }
    expect(parsePrice("0.30 EURC", EURC, "price")).to.equal(300_000n);
    expect(parsePrice("$0.000000000000000001", { decimals: 18, currency: "USD" }, "price")).to.equal(1n);
  });

  it("refuses digits alone, which may be meant as base units, and names both ways out", () => {
    for (const price of ["500000", "0", "1", " 25 "]) {
      const digits = price.trim();
      expect(() => parsePrice(price, USDC, "pricing[0].price"), price).to.throw(
        ConfigError,
        `pricing[0].price is "${price}", which could mean base units or whole tokens: write "$${digits}" or "${digits}.00" for whole tokens, or \`amount: "${digits}"\` for base units`,
      );
    }
    expect(parsePrice("500000.00", USDC, "price")).to.equal(500_000_000_000n);
  });

  it("reads back every amount that it can write", () => {
    fc.assert(
      fc.property(fc.bigInt(0n, 1n << 200n), fc.integer({ min: 0, max: 30 }), (amount, decimals) => {
        const price = `$${formatAmount(amount, decimals)}`;
        expect(parsePrice(price, { decimals, currency: "USD" }, "price")).to.equal(amount);
      }),
    );
  });

  it("J7 refuses digits that the token does not have instead of cutting them off", () => {
    expect(() => parsePrice("$0.0000019", USDC, "pricing[0].price")).to.throw(
      ConfigError,
      'pricing[0].price is "$0.0000019", which has 7 fraction digits: the token has 6',
    );
    expect(() => parsePrice("$0.5", { decimals: 0, currency: "USD" }, "price")).to.throw(
      ConfigError,
      "the token has 0",
    );
  });

  it("J7 refuses numbers, signs, exponents, separators and digits of other scripts", () => {
    for (const price of [0.05, 1, 5n, undefined, null, {}, ["$1"]]) {
      expect(() => parsePrice(price, USDC, "price"), String(price)).to.throw(ConfigError, "a price is text");
    }
    for (const price of [
      "",
      "$",
      "-1",
      "$-1",
      "+1",
      "1e-2",
      "1,000",
      "0,05",
      ".5",
      "5.",
      "05",
      "0x10",
      "٥",
      "∞",
      "NaN",
      "1 2",
    ]) {
      expect(() => parsePrice(price, USDC, "price"), price).to.throw(ConfigError, `price is "${price}"`);
    }
    expect(() => parsePrice(`$${"9".repeat(78)}`, USDC, "price")).to.throw(ConfigError, "more than a token amount");
  });

  it("J8 takes dollars only for tokens that are known to be worth one", () => {
    for (const price of ["$0.05", "0.05", "0.05 USD"]) {
      expect(() => parsePrice(price, EURC, "price"), price).to.throw(ConfigError, "write the price in EURC");
      expect(() => parsePrice(price, { decimals: 6 }, "price"), price).to.throw(ConfigError, "TURNPIKE_TOKEN_CURRENCY");
    }
    for (const price of ["0.05 EURC", "$0.05 EURC"]) {
      expect(() => parsePrice(price, USDC, "price"), price).to.throw(ConfigError, "the token is USDC");
    }
    expect(() => parsePrice("$0.05 EURC", EURC, "price")).to.throw(ConfigError, "one token is worth one dollar");
    expect(() => parsePrice("$1", { currency: "USD" }, "price")).to.throw(ConfigError, "TURNPIKE_TOKEN_DECIMALS");
  });

  it("knows the dollar tokens of the presets", () => {
    for (const name of ["base-mainnet", "base-sepolia", "polygon-mainnet"]) {
      expect(parsePrice("$0.05", findNetwork(name)?.token ?? {}, "price"), name).to.equal(50_000n);
    }
  });
});
