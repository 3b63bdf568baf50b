import { expect } from "chai";
import { id, Transaction, type TransactionLike, Wallet } from "ethers";
import type { Hex } from "turnpike/protocol";
import { type ChainLog, createChainReader } from "../../../facilitator/src/chain/chain-reader";
import { newestLogs } from "../../../facilitator/src/chain/log-search";
import type { Rpc } from "../../../facilitator/src/chain/rpc";

const TO = `0x${"40".repeat(20)}`;
const BLOCK_HASH = id("block");

describe("transactions as a node returns them", () => {
  const wallet = new Wallet(id("turnpike test key: transactions"));
  const shape = { to: TO, nonce: 7, gasLimit: 90_000n, value: 0n, data: "0x1234" };
  const dear = { maxFeePerGas: 9n, maxPriorityFeePerGas: 1n };
  const kinds: readonly [string, TransactionLike][] = [
    ["of the first kind, without a chain", { ...shape, type: 0, gasPrice: 9n }],
    ["of the first kind", { ...shape, type: 0, gasPrice: 9n, chainId: 8453 }],
    ["with an access list", { ...shape, type: 1, gasPrice: 9n, chainId: 8453, accessList: [[TO, [BLOCK_HASH]]] }],
    ["with a fee cap", { ...shape, ...dear, type: 2, chainId: 8453 }],
  ];

  const quantity = (value: bigint | number | null): string => `0x${(value ?? 0).toString(16)}`;

  async function signed(like: TransactionLike): Promise<{ hash: Hex; fields: Record<string, unknown> }> {
    const sent = Transaction.from(await wallet.signTransaction(like));
    const { r, s, yParity, v, networkV } = sent.signature ?? expect.fail("it is not signed");
    const fees = sent.type === 2 ? dear : { gasPrice: sent.gasPrice };
    const prices = Object.entries(fees).map(([name, value]) => [name, quantity(value)]);
    const fields = {
      hash: sent.hash,
      blockHash: BLOCK_HASH,
      type: quantity(sent.type),
      to: TO,
      input: sent.data,
      r,
      s,
      nonce: quantity(sent.nonce),
      gas: quantity(sent.gasLimit),
      value: "0x0",
      chainId: quantity(sent.chainId),
      v: quantity(sent.type === 0 ? (networkV ?? v) : yParity),
      accessList: sent.accessList ?? [],
      ...Object.fromEntries(prices),
    };
    return { hash: sent.hash as Hex, fields };
  }
  const readerOf = (answer: object) =>
    createChainReader({ request: async () => answer } as Pick<Rpc, "request"> as Rpc);

  for (const [kind, like] of kinds) {
    it(`S4 ${kind}: its hash proves what it called, and another call in its place is no answer`, async () => {
      const { hash, fields } = await signed(like);
      expect((await readerOf(fields).transaction(hash))?.call).to.deep.equal({ to: TO, data: "0x1234" });
      for (const lie of [{ input: "0x1235" }, { to: `0x${"41".repeat(20)}` }, { nonce: "0x8" }]) {
        const error = await readerOf({ ...fields, ...lie })
          .transaction(hash)
          .catch((thrown: unknown) => thrown);
        expect(error, JSON.stringify(lie)).to.include({ code: "Unavailable" });
      }
    });
  }

  it("S4 a kind that not every chain hashes in the same way proves no call", async () => {
    const { hash, fields } = await signed(kinds[3]?.[1] ?? {});
    const read = await readerOf({ ...fields, type: "0x7e" }).transaction(hash);
    expect(read).to.deep.equal({ blockHash: BLOCK_HASH, from: undefined, call: undefined });
  });
});

describe("logs of many blocks", () => {
  const logsBetween = (most: number) => async (from: number, to: number) => {
    if (to - from >= most) throw new Error("the range is too wide");
    return Array.from({ length: to - from + 1 }, (_, place) => ({ blockNumber: from + place }) as ChainLog);
  };

  for (const most of [5_000, 100_000]) {
    it(`are found newest first at a node that returns ${most} blocks`, async () => {
      const found: number[] = [];
      const range = { fromBlock: 3, toBlock: 12_000 };
      for await (const { blockNumber } of newestLogs({ logsBetween: logsBetween(most) }, range, { addresses: [] }))
        found.push(blockNumber);
      expect(found).to.deep.equal(Array.from({ length: 11_998 }, (_, place) => 12_000 - place));
    });
  }

  it("are no answer when a node rejects every range", async () => {
    const search = newestLogs({ logsBetween: logsBetween(1) }, { fromBlock: 1, toBlock: 2 }, { addresses: [] });
    expect(await search.next().catch((error: unknown) => error)).to.include({ code: "Unavailable" });
  });
});
