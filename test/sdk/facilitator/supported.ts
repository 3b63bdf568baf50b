/** What a Facilitator on several chains states of one of them. */
import { expect } from "chai";
import { type Supported, type SupportedChain, supportedOn } from "turnpike/facilitator";
import type { TurnpikeError } from "turnpike/protocol";

const chainOf = (network: string, chainId: number): SupportedChain => ({
  network,
  chainId,
  turnpike: `0x${"11".repeat(20)}`,
  batchSettler: `0x${"22".repeat(20)}`,
  proofSigners: [`0x${chainId.toString(16).padStart(40, "0")}`],
  relayers: [],
  tokens: [],
});

const BASE = chainOf("base-mainnet", 8_453);
const POLYGON = chainOf("polygon-mainnet", 137);
const COMMON = { kinds: [], extensions: [], signers: {} };

describe("what a Facilitator supports on one chain", () => {
  const several: Supported = { ...COMMON, ...BASE, chains: [BASE, POLYGON] };
  const one: Supported = { ...COMMON, ...BASE };

  it("has the facts of that chain", () => {
    expect(supportedOn(several, 137).proofSigners).to.deep.equal(POLYGON.proofSigners);
    expect(supportedOn(several, 8_453).proofSigners).to.deep.equal(BASE.proofSigners);
    expect(supportedOn(one, 8_453)).to.deep.equal(one);
  });

  for (const [what, supported] of Object.entries({ several, one })) {
    it(`HD38 is an error where it is not among the chains that are up, of ${what}, never another chain's facts`, () => {
      const read = () => supportedOn({ ...supported, ...(supported.chains && { chains: [BASE] }) }, 137);
      let error: TurnpikeError | undefined;
      try {
        read();
      } catch (thrown) {
        error = thrown as TurnpikeError;
      }
      expect(error).to.include({ code: "Unavailable", reason: "network" });
      expect(error?.message).to.match(/ does not serve polygon-mainnet now: it lists base-mainnet\. Check /);
    });
  }
});
