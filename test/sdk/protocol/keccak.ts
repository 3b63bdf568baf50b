import { expect } from "chai";
import { keccak256 as ofLibrary } from "ethers";
import fc from "fast-check";
import { type Hex, keccak256, keccakText, toHex } from "turnpike/protocol";
import { fastKeccak256, portableKeccak256 } from "../../../sdk/src/protocol/hex";

/** What servers hash with, what browsers hash with, and what the package chose here. */
const HASHES = {
  WebAssembly: async () => inHex(await fastKeccak256()),
  JavaScript: async () => inHex(portableKeccak256),
  "the package's": async () => keccak256,
};

/** @throws TypeError where there is no WebAssembly: what servers run is what is compared */
function inHex(hash: typeof portableKeccak256 | undefined): (bytes: Uint8Array) => Hex {
  if (!hash) throw new TypeError("there is no WebAssembly here");
  return (bytes) => toHex(hash(bytes));
}

describe("keccak256", () => {
  for (const [name, hashOf] of Object.entries(HASHES)) {
    it(`in ${name} is what the portable library makes, for every length around a block and for any bytes`, async () => {
      const hash = await hashOf();
      for (let length = 0; length <= 3 * 136 + 1; length++) {
        const bytes = Uint8Array.from({ length }, (_, i) => (i * 31 + length) & 0xff);
        expect(hash(bytes), `${length} bytes`).to.equal(ofLibrary(bytes));
        // A view into a larger buffer, at an odd place.
        const shifted = new Uint8Array(length + 7);
        shifted.set(bytes, 3);
        expect(hash(shifted.subarray(3, 3 + length))).to.equal(ofLibrary(bytes));
      }
      fc.assert(fc.property(fc.uint8Array({ maxLength: 1_000 }), (bytes) => hash(bytes) === ofLibrary(bytes)));
    });
  }

  it("does without WebAssembly where making code at run time is forbidden", async () => {
    const { WebAssembly: own } = globalThis as { WebAssembly?: object };
    const forbidden = async () => {
      throw new TypeError("refused by a content security policy");
    };
    for (const platform of [undefined, { compile: forbidden, instantiate: forbidden }]) {
      Object.assign(globalThis, { WebAssembly: platform });
      try {
        expect(await fastKeccak256()).to.equal(undefined);
      } finally {
        Object.assign(globalThis, { WebAssembly: own });
      }
    }
  });

  it("has the value that everybody knows", () => {
    expect(keccakText("")).to.equal("0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");
    expect(keccakText("Transfer(address,address,uint256)")).to.equal(
      "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
    );
  });
});
