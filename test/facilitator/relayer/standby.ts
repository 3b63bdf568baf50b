import { expect } from "chai";
import { sql } from "kysely";
import pino from "pino";
import type { Core } from "../../../facilitator/src/app/core";
import { databaseNowMs } from "../../../facilitator/src/db/sql";
import { type Relayer, startRelayer } from "../../../facilitator/src/relayer";
import { type FacilitatorWorld, startWorld, until } from "../../support/facilitator";

const HOUR_MS = 3_600_000;

describe("Facilitator: a process whose key another process has", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;
  let standby: Relayer;

  /** What the process with the lease reports of its lane. */
  async function report(facts: { readonly is_balance_low: boolean; readonly obstacle: string | null }): Promise<void> {
    const row = { ...facts, balance_wei: "7", at_ms: databaseNowMs, in_flight: 3, queued: 2, oldest_pending_sec: 1 };
    await core.store.db
      .insertInto("lane_reports")
      .values({ chain_id: world.chain.chainId, key: core.relayer.addresses[0] ?? "", ...row })
      .onConflict((conflict) => conflict.columns(["chain_id", "key"]).doUpdateSet(row))
      .execute();
  }

  before(async () => {
    world = await startWorld();
    core = await world.core({ RENEWALS: "false" });
    await core.relayer.stop();
    const { config, store } = core;
    const lease_until_ms = sql<number>`${databaseNowMs} + ${HOUR_MS}::bigint`;
    await store.db.updateTable("lanes").set({ lease_owner: "another process", lease_until_ms }).execute();
    await report({ is_balance_low: false, obstacle: null });
    // The embedded database has one process, which acquires every lease.
    const shared = Object.assign(Object.create(store), { kind: "postgres" });
    standby = await startRelayer({ config, store: shared, log: pino({ level: "silent" }), onStep: () => undefined });
  });
  after(async () => {
    await standby?.stop();
    await world?.stop();
  });

  it("HA3 reports the lane as its process does: well, with its balance and its transactions", async () => {
    await until(async () => standby.health().lanes[0]?.balanceWei === 7n, "the report is read");
    expect(standby.health()).to.include({ ok: true });
    expect(standby.health().lanes[0]).to.include({ status: "standby", isBalanceLow: false, inFlight: 3, queued: 2 });
  });

  it("HA3 refuses payments while the key is low on gas money, and accepts them when it is funded", async () => {
    await report({ is_balance_low: true, obstacle: null });
    await until(async () => !standby.health().ok, "the shortage is read");
    expect(standby.health().reason).to.contain("low on gas money");
    await report({ is_balance_low: false, obstacle: null });
    await until(async () => standby.health().ok, "the funds are read");
  });

  it("HA3 refuses payments while nothing that the lane sends is mined", async () => {
    await report({ is_balance_low: false, obstacle: "its oldest transaction is not mined since 99 s" });
    await until(async () => !standby.health().ok, "the obstacle is read");
    expect(standby.health().reason).to.contain("not mined since 99 s");
  });
});
