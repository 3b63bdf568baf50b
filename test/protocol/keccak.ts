import { expect } from "chai";
import { keccak256 as ofLibrary } from "ethers";
import fc from "fast-check";
import { keccak256, keccakText } from "turnpike/protocol";

describe("keccak256", () => {
  it("is what the portable library makes, for every length around a block and for any bytes", () => {
    for (let length = 0; length <= 3 * 136 + 1; length++) {
      const bytes = Uint8Array.from({ length }, (_, i) => (i * 31 + length) & 0xff);
      expect(keccak256(bytes), `${length} bytes`).to.equal(ofLibrary(bytes));
      // A view into a larger buffer, at an odd place.
      const shifted = new Uint8Array(length + 7);
      shifted.set(bytes, 3);
      expect(keccak256(shifted.subarray(3, 3 + length))).to.equal(ofLibrary(bytes));
    }
    fc.assert(fc.property(fc.uint8Array({ maxLength: 1_000 }), (bytes) => keccak256(bytes) === ofLibrary(bytes)));
  });

  it("has the value that everybody knows", () => {
    expect(keccakText("")).to.equal("0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");
    expect(keccakText("Transfer(address,address,uint256)")).to.equal(
      "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
    );
  });
});
