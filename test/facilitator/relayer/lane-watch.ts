import { expect } from "chai";
import { sql } from "kysely";
import { type Address, addressOfKey, type Hex } from "turnpike/protocol";
import { databaseNowMs } from "../../../facilitator/src/db/sql";
import { watchLanes } from "../../../facilitator/src/relayer/lane-watch";
import { createDebits } from "../../../facilitator/src/subscriptions/debits";
import { testKey } from "../../support/chain";
import { type FacilitatorWorld, startWorld } from "../../support/facilitator";

describe("Facilitator: lanes as a process without keys sees them", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  before(async () => {
    world = await startWorld();
  });
  after(() => world?.stop());

  it("HA3 a retired key is no relayer, whose right to debit a plan would have to name", async () => {
    const core = await world.core({ RENEWALS: "false" });
    const { db } = core.store;
    const { chainId } = world.chain;
    const [own] = core.relayer.addresses as [Address];
    const retired = addressOfKey(testKey("retired relayer") as Hex);
    const row = await db.selectFrom("lanes").selectAll().where("key", "=", own).executeTakeFirstOrThrow();
    await db
      .insertInto("lanes")
      .values({ ...row, key: retired, lease_until_ms: 0 })
      .execute();
    const watch = watchLanes(core.store, chainId);
    expect(watch.addresses()).to.deep.equal([]);
    await watch.refresh();
    expect(watch.addresses()).to.deep.equal([own]);
    expect(watch.health().map(({ key }) => key)).to.have.members([own, retired]);

    await core.relayer.stop();
    await watch.refresh();
    expect(watch.addresses(), "while its process is replaced").to.deep.equal([own]);
  });

  it("HD10 a lane whose process has released it a moment ago takes payments: another process acquires it", async () => {
    await world.loseDatabase();
    const core = await world.core({ RENEWALS: "false" });
    await core.relayer.stop();
    const watch = watchLanes(core.store, world.chain.chainId);
    const laneAfter = async (silentMs: number) => {
      const at_ms = sql<number>`${databaseNowMs} - ${silentMs}::bigint`;
      const report = { balance_wei: "1", is_balance_low: false, in_flight: 0, queued: 0, oldest_pending_sec: 0 };
      await core.store.db
        .insertInto("lane_reports")
        .values({ chain_id: world.chain.chainId, key: core.relayer.addresses[0] ?? "", at_ms, ...report })
        .onConflict((conflict) => conflict.columns(["chain_id", "key"]).doUpdateSet({ at_ms }))
        .execute();
      await watch.refresh();
      return watch.health()[0];
    };
    expect(await laneAfter(1_000)).to.include({ status: "standby", isStuck: false });
    expect(await laneAfter(7_000)).to.include({ status: "stopped", reason: "no process holds this lane" });
  });

  it("HA3 where no relayer is known nothing is said of a debit: it is asked for again", async () => {
    await world.loseDatabase();
    const core = await world.core({ RENEWALS: "false" });
    const { config, store, indexer } = core;
    const chain_id = world.chain.chainId;
    const idHash = `0x${"1d".repeat(32)}` as Hex;
    const planId = `0x${"2e".repeat(32)}` as Hex;
    const terms = { amount: "1000000", interval_sec: 2_592_000, grace_sec: 86_400, pay_to: world.payee };
    const made = { block_number: 1, created_at: 1 };
    const open = { salt: planId, metadata: "", deprecated: false, successor: null };
    const live = { paused: false, ending: false, cancelled: false, moved_to: null, transaction: planId };
    await store.db
      .insertInto("plans")
      .values({
        chain_id,
        plan_id: planId,
        plan_index: 0,
        provider: world.payee,
        token: world.contracts.token,
        ...terms,
        ...made,
        ...open,
      })
      .execute();
    await store.db
      .insertInto("subscriptions")
      .values({
        chain_id,
        id_hash: idHash,
        subscriber: world.payee,
        plan_id: planId,
        paid_through: 1,
        version: 0,
        ...made,
        ...live,
      })
      .execute();
    const relayer = { ...core.relayer, addresses: [] };
    const debits = createDebits({ config, store, relayer, indexer, monotonicMs: () => performance.now() });
    const asked = debits.collect(world.payee, [{ idHash, amount: 1_000n, index: 0 }], { waitMs: 0 });
    expect(await asked.catch((thrown: unknown) => thrown)).to.include({ code: "Unavailable" });
  });
});
