/** Transactions of a relayer key that is in the settings no more. */
import { expect } from "chai";
import { sql } from "kysely";
import pino from "pino";
import { type Address, addressOfKey, type Hex } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { databaseNowMs } from "../../../facilitator/src/db/sql";
import { createBroadcasts } from "../../../facilitator/src/relayer/broadcasts";
import { FormerKeys } from "../../../facilitator/src/relayer/former-keys";
import { createReceipts } from "../../../facilitator/src/relayer/receipts";
import { testKey } from "../../support/chain";
import { type FacilitatorWorld, fund, startWorld, until, walletOf } from "../../support/facilitator";
import { GROUPS } from "../chaos/support/faults";
import { type ChaosRpc, startChaosRpc } from "../chaos/support/rpc";

const HOUR_MS = 3_600_000;
const PATIENCE_MS = 60_000;

describe("Facilitator: a relayer key that no process has any more", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let node: ChaosRpc;
  let keys = 0;
  let former: Hex;
  let next: Hex;
  let payee: Address;

  before(async () => {
    world = await startWorld();
    node = await startChaosRpc(world.chain.rpcUrl);
  });
  after(async () => {
    await node?.stop();
    await world?.stop();
  });
  beforeEach(async () => {
    await world.loseDatabase();
    [former, next] = [testKey(`former ${keys}`) as Hex, testKey(`next ${keys}`) as Hex];
    payee = addressOfKey(testKey(`payee of a former key ${keys++}`) as Hex);
    for (const key of [former, next]) await fund(world.chain, addressOfKey(key));
  });

  const start = (key: Hex): Promise<Core> => world.core({ RELAYER_KEYS: key, RPC_URLS: node.url, RENEWALS: "false" });

  /** Stores a transaction with the former key, which no node gets. @returns its id */
  async function storeUnsent(amount: bigint): Promise<string> {
    node.set({ name: "lost", strikes: GROUPS.broadcast, act: { kind: "drop", when: "before" } });
    const core = await start(former);
    const id = await core.relayer.submit({
      purpose: "test",
      idempotencyKey: "stored, not sent",
      to: world.contracts.token,
      data: world.token.interface.encodeFunctionData("mint", [payee, amount]) as Hex,
      gasLimit: 100_000n,
    });
    await until(async () => (node.struck()[0] ?? 0) > 0, "it is stored");
    await core.stop();
    node.set();
    return id;
  }

  it("HD13 what it has signed, and no node has got, is sent by a process without the key", async () => {
    const id = await storeUnsent(7n);
    const core = await start(next);
    expect(await core.relayer.waitFor(id, PATIENCE_MS)).to.include({ kind: "mined", success: true });
    expect(await world.contracts.balanceOf(payee)).to.equal(7n);
    expect(await world.chain.provider.getTransactionCount(addressOfKey(next))).to.equal(0);
    await core.stop();
  });

  it("HD13 HK2 what cannot be mined any more, as its nonce is used, is displaced; the key stays stopped", async () => {
    const id = await storeUnsent(8n);
    const thief = walletOf(world.chain, former);
    await (await thief.sendTransaction({ to: thief.address })).wait();
    const core = await start(next);
    expect(await core.relayer.waitFor(id, PATIENCE_MS)).to.deep.equal({ kind: "displaced" });
    expect(core.relayer.health(), "the key in use goes on").to.include({ ok: true });
    await core.stop();
    const again = await start(former);
    expect(again.relayer.health()).to.include({ ok: false });
    expect(again.relayer.health().reason).to.match(/not ours/);
    await again.stop();
    expect(await world.contracts.balanceOf(payee)).to.equal(0n);
  });

  it("HD13 what a live process has signed is left to it", async () => {
    const id = await storeUnsent(9n);
    const core = await start(next);
    await core.relayer.stop();
    const { config, store } = core;
    const lease = (until_ms: number) =>
      store.db
        .updateTable("lanes")
        .set({ lease_owner: "another process", lease_until_ms: sql<number>`${databaseNowMs} + ${until_ms}::bigint` })
        .where("key", "=", addressOfKey(former))
        .execute();
    await lease(HOUR_MS);
    node.set({ name: "counted", strikes: GROUPS.broadcast, act: { kind: "delay", ms: 0 } });
    // The embedded database has one process, which acquires every lease.
    const shared = Object.assign(Object.create(store), { kind: "postgres" });
    const { chain } = core.relayer;
    const parts = {
      store: shared,
      chain,
      log: pino({ level: "silent" }),
      onStep: () => undefined,
      monotonicMs: () => nowMs,
    };
    let nowMs = 0;
    const formerKeys = new FormerKeys({
      ...parts,
      config,
      own: [addressOfKey(next)],
      owner: "this process",
      receipts: createReceipts({ ...parts, blockTimeMs: config.blockTimeMs }),
      broadcasts: createBroadcasts(parts),
    });
    /** Two rounds, long after each other. */
    async function rounds(): Promise<void> {
      for (let round = 0; round < 2; round++) {
        nowMs += HOUR_MS;
        await formerKeys.round();
      }
    }
    await rounds();
    expect(node.struck()[0] ?? 0).to.equal(0);
    await lease(-HOUR_MS);
    await rounds();
    expect(node.struck()[0]).to.equal(1);
    await until(async () => (await world.contracts.balanceOf(payee)) === 9n, "it is mined");
    await rounds();
    expect(await core.relayer.outcome(id)).to.include({ kind: "mined", success: true });
    await core.stop();
  });
});
