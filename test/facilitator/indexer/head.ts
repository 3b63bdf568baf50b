import { expect } from "chai";
import type { Hex } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { newestBlock } from "../../../facilitator/src/indexer/applied-blocks";
import { type FacilitatorWorld, startWorld, until } from "../../support/facilitator";
import { GROUPS } from "../chaos/support/faults";
import { type ChaosRpc, startChaosRpc } from "../chaos/support/rpc";
import { blockWriterOf } from "../support/block-writer";

const AHEAD_BLOCKS = 1_000;
const DAY_SEC = 86_400;

describe("a node that invents its newest block", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let node: ChaosRpc;
  let core: Core;

  before(async () => {
    world = await startWorld();
    node = await startChaosRpc(world.chain.rpcUrl);
    core = await world.core({ RPC_URLS: node.url, RENEWALS: "false" });
  });
  after(async () => {
    await world?.stop();
    await node?.stop();
  });

  it("S4 a head that does not link to an indexed block moves neither the clock nor the depth, and the true one does", async () => {
    const before = core.indexer.head()?.number ?? 0;
    const invented = `0x${"ab".repeat(32)}`;
    node.set({
      name: "far ahead",
      strikes: GROUPS.head,
      act: {
        kind: "lie",
        respond: (_, honest) => {
          const { number, timestamp } = honest as { number: string; timestamp: string };
          return {
            ...(honest as object),
            number: `0x${(Number(number) + AHEAD_BLOCKS).toString(16)}`,
            timestamp: `0x${(Number(timestamp) + DAY_SEC).toString(16)}`,
            hash: invented,
          };
        },
      },
    });
    // The second time it is asked, the first answer has been processed.
    await until(async () => (node.struck()[0] ?? 0) >= 4, "the node was asked for its newest block");
    expect(core.indexer.head()?.hash).not.to.equal(invented);
    expect(core.indexer.clock.nowSec()).to.be.lessThan((await world.nowSec()) + DAY_SEC / 2);
    node.set();
    await until(async () => (core.indexer.head()?.number ?? 0) > before, "the true head is followed");
    expect(core.indexer.clock.nowSec()).to.be.lessThan((await world.nowSec()) + DAY_SEC / 2);
  });

  it("S4 a head that names the last block as its parent, and that no node returns by its height, is not applied", async () => {
    await world.chain.provider.send("evm_setIntervalMining", [0]);
    await core.indexer.catchUp();
    const before = core.indexer.applied();
    const invented = `0x${"cd".repeat(32)}`;
    node.set(
      {
        name: "one ahead",
        strikes: GROUPS.head,
        act: {
          kind: "lie",
          respond: (_, honest) => {
            const { number, hash, timestamp } = honest as { number: string; hash: string; timestamp: string };
            return {
              ...(honest as object),
              number: `0x${(Number(number) + 1).toString(16)}`,
              parentHash: hash,
              timestamp: `0x${(Number(timestamp) + DAY_SEC).toString(16)}`,
              hash: invented,
            };
          },
        },
      },
      { name: "no logs", strikes: GROUPS.logs, act: { kind: "swallow", respond: () => [] } },
    );
    await until(async () => (node.struck()[0] ?? 0) >= 4, "the node was asked for its newest block");
    expect(core.indexer.applied()).to.equal(before);
    expect(core.indexer.head()?.hash).not.to.equal(invented);
    expect(core.indexer.clock.nowSec()).to.be.lessThan((await world.nowSec()) + DAY_SEC / 2);
    node.set();
    await world.chain.provider.send("hardhat_mine", ["0x1"]);
    await until(async () => core.indexer.applied() > before, "the true block is applied");
  });

  it("B8 a block whose parent is not the newest block is not written, whichever process read it", async () => {
    await core.indexer.catchUp();
    await core.indexer.stop();
    const { chainId } = world.chain;
    const newest = await newestBlock(core.store.db, chainId);
    if (!newest) expect.fail("nothing is applied");
    const block = {
      number: newest.number + 1,
      hash: `0x${"11".repeat(32)}` as Hex,
      parentHash: `0x${"22".repeat(32)}` as Hex,
      timestampSec: newest.timestamp + 1,
      baseFeeWei: 0n,
      transactions: [],
    };
    const writer = blockWriterOf(core.store, chainId);
    expect(await writer.write({ chainId, block, facts: [], expired: [] }, "next")).to.equal(undefined);
    expect((await newestBlock(core.store.db, chainId))?.hash).to.equal(newest.hash);
    const next = { ...block, parentHash: newest.hash as Hex };
    expect(await writer.write({ chainId, block: next, facts: [], expired: [] }, "next")).not.to.equal(undefined);
  });
});
