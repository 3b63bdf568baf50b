// Which node may give a public chain's record.

import { expect } from "chai";
import { isDevnet, requireGenuine } from "../../scripts/deploy/genuine";

const BASE = "0xf712aa9241cc24369b143cf6dce85f0902a9731e70d66818a3a5845b296c73dd";
const OTHER = `0x${"ab".repeat(32)}`;

interface Node {
  /** of block 0; null: not kept */
  readonly genesis?: string | null;
  readonly client?: string;
  /** the development methods that it answers */
  readonly answers?: readonly string[];
}

const node =
  ({ genesis = BASE, client = "op-geth/v1", answers = [] }: Node = {}) =>
  async (method: string): Promise<unknown> => {
    if (method === "web3_clientVersion") return client;
    if (method === "eth_getBlockByNumber") return genesis === null ? null : { hash: genesis };
    if (answers.includes(method)) return {};
    throw new Error(`the method ${method} does not exist`);
  };

const refusal = (sent: Promise<void>): Promise<string> =>
  sent.then(
    () => "taken",
    (error: Error) => error.message,
  );

describe("a public chain's record", () => {
  it("is taken from its own nodes, by the first block", async () => {
    expect(await refusal(requireGenuine(node(), 8_453))).to.equal("taken");
    expect(await refusal(requireGenuine(node({ genesis: BASE.toUpperCase().replace("0X", "0x") }), 8_453))).to.equal(
      "taken",
    );
    expect(await refusal(requireGenuine(node({ genesis: OTHER }), 8_453))).to.contain(
      `has the id of base-mainnet and another first block, ${OTHER}: it is another chain`,
    );
    expect(await refusal(requireGenuine(node(), 84_532))).to.contain(
      "has the id of base-sepolia and another first block",
    );
    expect(await refusal(requireGenuine(node({ genesis: null }), 8_453))).to.contain(
      "has not kept block 0 of base-mainnet",
    );
  });

  it("is not taken from a fork, which has the same first block", async () => {
    for (const method of ["anvil_nodeInfo", "hardhat_metadata"]) {
      const fork = node({ answers: [method] });
      expect(await isDevnet(fork)).to.equal(true);
      expect(await refusal(requireGenuine(fork, 8_453))).to.contain("is a development node, a fork perhaps");
    }
    expect(await isDevnet(node({ client: "HardhatNetwork/2" }))).to.equal(true);
    expect(await isDevnet(node())).to.equal(false);
  });

  it("of a chain whose first block is not listed needs its hash", async () => {
    expect(await refusal(requireGenuine(node({ genesis: OTHER }), 4_663, ""))).to.contain(
      "The first block of robinhood-mainnet is not known here: set TURNPIKE_GENESIS_HASH",
    );
    expect(await refusal(requireGenuine(node({ genesis: OTHER }), 4_663, OTHER))).to.equal("taken");
    expect(await refusal(requireGenuine(node(), 4_663, OTHER))).to.contain("another first block");
    // A hash that is listed is not replaced.
    expect(await refusal(requireGenuine(node({ genesis: OTHER }), 8_453, OTHER))).to.contain("another first block");
  });

  it("is not what a private chain of its own id has: that is recorded from any node", async () => {
    expect(await refusal(requireGenuine(node({ genesis: null, client: "anvil/v1" }), 31_337))).to.equal("taken");
  });
});
