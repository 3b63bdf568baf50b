/** A node that is wrong for an hour, alone and with an honest one. */
import { expect } from "chai";
import { id } from "ethers";
import type { SignedPayment } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { type FacilitatorWorld, startWorld, until } from "../../support/facilitator";
import { GROUPS, lagging } from "../chaos/support/faults";
import { type ChaosRpc, type Fault, type RpcCall, startChaosRpc } from "../chaos/support/rpc";

const HOUR_SEC = 3_600;
const BLOCK_MS = 250;
const USED = id("authorizationState(address,bytes32)").slice(0, 10);

const dataOf = ({ params }: RpcCall): string =>
  String((params[0] as { data?: string; input?: string })?.data ?? (params[0] as { input?: string })?.input ?? "");

/** Blocks without logs. */
const noLogs: Fault = { name: "no logs", strikes: GROUPS.logs, act: { kind: "lie", respond: () => [] } };
/** Every nonce is unused. */
const unused: Fault = {
  name: "unused",
  strikes: (call) => GROUPS.call(call) && dataOf(call).startsWith(USED),
  act: { kind: "lie", respond: () => `0x${"0".repeat(64)}` },
};

describe("chain weather: a node that is wrong for an hour", function () {
  this.timeout(300_000);
  let world: FacilitatorWorld;
  let node: ChaosRpc;
  let core: Core;

  beforeEach(async () => {
    world = await startWorld({ blockMs: BLOCK_MS });
    node = await startChaosRpc(world.chain.rpcUrl);
  });
  afterEach(async () => {
    await core?.stop();
    await node?.stop();
    await world?.stop();
  });

  const transfersOf = async ({ authorization }: SignedPayment) =>
    (await world.transfers()).filter(({ from }) => from === authorization.from);

  /** Lets an hour of blocks pass, so that every window is over for good, and waits until they are indexed. */
  async function anHour(): Promise<void> {
    for (let step = 0; step < 4; step++) await world.chain.advance(HOUR_SEC / 4);
    const height = (await world.chain.provider.getBlockNumber()) + 3;
    await until(async () => core.indexer.applied() >= height, "an hour of blocks is indexed");
  }

  async function hidden(): Promise<SignedPayment> {
    const signed = await world.signPayment({ validForSec: 900 });
    await core.payments.authorize(signed, { waitMs: 0 });
    await until(async () => (await transfersOf(signed)).length === 1, "the money has moved");
    await anHour();
    return signed;
  }

  it("HG8 alone, it hides a transfer until its window is over: pending, never failed, and settled once it shows it", async () => {
    core = await world.core({ RPC_URLS: node.url });
    node.set(noLogs);
    const signed = await hidden();
    expect(await core.payments.status(world.idOf(signed))).to.deep.equal({ status: "pending" });
    node.set();
    await until(async () => (await core.payments.authorize(signed)).kind === "settled", "it settles", 120_000);
    expect(await transfersOf(signed)).to.have.length(1);
  });

  it("HG8 it also shows the nonce as unused: an honest second node keeps the payment from being failed", async () => {
    core = await world.core({ RPC_URLS: `${node.url},${world.chain.rpcUrl}` });
    node.set(noLogs, unused);
    const signed = await hidden();
    expect(await core.payments.status(world.idOf(signed))).to.deep.equal({ status: "pending" });
    node.set();
    await until(async () => (await core.payments.authorize(signed)).kind === "settled", "it settles", 120_000);
    expect(await transfersOf(signed)).to.have.length(1);
  });

  it("HG7 its newest block stays the same: alone nothing is proved or failed, and all settles once it goes on", async () => {
    core = await world.core({ RPC_URLS: node.url, BUMP_AFTER_MS: "1000" });
    node.set(...lagging({ to: await world.chain.provider.getBlockNumber() }));
    const signed = await world.signPayment({ validForSec: 7_200 });
    expect((await core.payments.authorize(signed, { waitMs: 500 })).kind).to.be.oneOf(["pending", "refused"]);
    for (let step = 0; step < 4; step++) await world.chain.advance(HOUR_SEC / 4);
    expect((await core.payments.status(world.idOf(signed))).status).to.be.oneOf(["pending", "unknown"]);
    node.set();
    await until(async () => (await core.payments.authorize(signed)).kind === "settled", "it settles", 120_000);
    expect(await transfersOf(signed)).to.have.length(1);
  });

  it("HG7 its newest block stays the same, and it sends nothing on: payments settle by the honest second node", async () => {
    core = await world.core({ RPC_URLS: `${node.url},${world.chain.rpcUrl}` });
    const kept: Fault = {
      name: "kept",
      strikes: GROUPS.broadcast,
      act: { kind: "swallow", respond: () => `0x${"5".repeat(64)}` },
    };
    node.set(...lagging({ to: await world.chain.provider.getBlockNumber() }), kept);
    const signed = await world.signPayment({ validForSec: 7_200 });
    await until(async () => (await core.payments.authorize(signed)).kind === "settled", "it settles", 120_000);
    expect(await transfersOf(signed)).to.have.length(1);
    expect(core.relayer.nodes.nodes()[0]?.behind).to.be.greaterThan(0);
  });
});
