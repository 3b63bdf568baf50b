import { expect } from "chai";
import type { Core } from "../../facilitator/src/core";
import { type FacilitatorWorld, startWorld, until } from "../support/facilitator";
import { GROUPS } from "./support/chaos-faults";
import { type ChaosRpc, startChaosRpc } from "./support/chaos-rpc";

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

  it("S4 a head that stands on none of the blocks moves neither the clock nor the depth, and the true one does", async () => {
    const before = core.indexer.head()?.number ?? 0;
    const invented = `0x${"ab".repeat(32)}`;
    node.set({
      name: "far ahead",
      strikes: GROUPS.head,
      act: {
        kind: "lie",
        tell: (_, honest) => {
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
    // The second time it is asked, the first answer has been taken in.
    await until(async () => (node.struck()[0] ?? 0) >= 4, "the node was asked for its newest block");
    expect(core.indexer.head()?.hash).not.to.equal(invented);
    expect(core.indexer.clock.nowSec()).to.be.lessThan((await world.nowSec()) + DAY_SEC / 2);
    node.set();
    await until(async () => (core.indexer.head()?.number ?? 0) > before, "the true head is followed");
    expect(core.indexer.clock.nowSec()).to.be.lessThan((await world.nowSec()) + DAY_SEC / 2);
  });
});
