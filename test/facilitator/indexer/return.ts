import { expect } from "chai";
import pino from "pino";
import type { Core } from "../../../facilitator/src/app/core";
import { dumpText } from "../../../facilitator/src/cli/maintenance/dump";
import { reconcile } from "../../../facilitator/src/cli/maintenance/reconcile";
import { wholePayload } from "../../../facilitator/src/events/payload";
import { newestBlock } from "../../../facilitator/src/indexer/applied-blocks";
import { noProgress } from "../../../facilitator/src/lib/progress";
import { type FacilitatorWorld, startWorld } from "../../support/facilitator";
import { blockWriterOf } from "../support/block-writer";

describe("Facilitator: a block that is reorganised away and comes back", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  before(async () => {
    world = await startWorld();
  });
  after(() => world.stop());

  async function endpoint(core: Core, name: string, types: readonly string[] | null): Promise<void> {
    await core.store.db
      .insertInto("webhook_endpoints")
      .values({
        id: name,
        chain_id: world.chain.chainId,
        provider: world.payee,
        url: "http://127.0.0.1:1/",
        types: types && JSON.stringify(types),
        description: "",
        status: "enabled",
        disabled_reason: null,
        created_at_ms: 0,
      })
      .execute();
  }

  it("B8 S6 reports that its payment is settled after all, each time under an id of its own", async () => {
    const { chainId } = world.chain;
    const first = await world.core();
    await endpoint(first, "all", null);
    await endpoint(first, "reversals", ["payment.reversed"]);
    await endpoint(first, "plans", ["plan.created"]);
    const signed = await world.signPayment();
    const paymentId = world.idOf(signed);
    const settled = await first.payments.authorize(signed);
    if (settled.kind !== "settled") expect.fail(`it is ${settled.kind}`);
    const { blockNumber } = settled.proof;
    await world.chain.provider.send("evm_setIntervalMining", [0]);
    await first.indexer.catchUp();
    const before = await dumpText(first.store.db, chainId);

    let core = first;
    for (const _ of [1, 2]) {
      // As reported by a node on another branch for a while: the block is reverted, then it is there again.
      await core.indexer.stop();
      const writer = blockWriterOf(core.store, chainId);
      for (;;) {
        const newest = await newestBlock(core.store.db, chainId);
        if (!newest || newest.number < blockNumber) break;
        expect((await writer.revertNewest(newest.hash)).kind).to.equal("reverted");
      }
      expect((await core.payments.status(paymentId)).status).to.equal("reversed");
      await core.stop();
      core = await world.core();
      await core.indexer.catchUp();
      expect((await core.payments.status(paymentId)).status).to.equal("settled");
    }

    const { db } = core.store;
    const events = await db
      .selectFrom("events")
      .selectAll()
      .where("object_id", "=", paymentId)
      .orderBy("sequence")
      .execute();
    expect(events.map(({ type, sequence, reverted }) => [type, sequence, reverted])).to.deep.equal([
      ["payment.settled", 1, false],
      ["payment.reversed", 2, false],
      ["payment.restored", 3, true],
      ["payment.reversed", 4, false],
      ["payment.restored", 5, false],
    ]);
    expect(new Set(events.map(({ id }) => id)).size).to.equal(events.length);
    const payloads = events.map(wholePayload);
    expect(payloads[4], "the whole state, as in the first event").to.deep.equal(payloads[0]);
    const queuedFor = async (name: string): Promise<string[]> => {
      const rows = await db.selectFrom("webhook_deliveries").selectAll().where("endpoint_id", "=", name).execute();
      return rows.map((row) => events.find(({ id }) => id === row.event_id)?.type ?? "");
    };
    expect((await queuedFor("all")).sort()).to.deep.equal(events.map(({ type }) => type).sort());
    expect((await queuedFor("reversals")).sort()).to.deep.equal([
      ...["payment.restored", "payment.restored"],
      ...["payment.reversed", "payment.reversed"],
    ]);
    expect(await queuedFor("plans")).to.deep.equal([]);

    // The chain has one payment; so have the rows that it decides, and the sums.
    expect(await dumpText(db, chainId)).to.equal(before);
    const wrong: string[] = [];
    const log = pino({ level: "silent" });
    const job = { config: world.config(), store: core.store, chain: core.relayer.chain, log, progress: noProgress };
    for await (const difference of reconcile(job)) wrong.push(difference);
    expect(wrong).to.deep.equal([]);
  });

  it("HA3 a process that settled a payment says so no more after another process has taken its block back", async () => {
    const { chainId } = world.chain;
    await world.chain.provider.send("evm_setIntervalMining", [100]);
    await world.loseDatabase();
    const core = await world.core();
    const signed = await world.signPayment();
    const settled = await core.payments.authorize(signed);
    if (settled.kind !== "settled") expect.fail(`it is ${settled.kind}`);
    await world.chain.provider.send("evm_setIntervalMining", [0]);
    // This process reads nothing more, as one whose node is away; another one follows the chain.
    await core.indexer.stop();
    const writer = blockWriterOf(core.store, chainId);
    for (;;) {
      const newest = await newestBlock(core.store.db, chainId);
      if (!newest || newest.number < settled.proof.blockNumber) break;
      expect((await writer.revertNewest(newest.hash)).kind).to.equal("reverted");
    }
    expect((await core.payments.status(world.idOf(signed))).status).to.equal("reversed");
    expect((await core.payments.authorize(signed, { waitMs: 0 })).kind).to.equal("pending");
  });

  it("HA3 an x402 payment accepted on a lost branch settles on the other, also at a lower height", async () => {
    const rpc = (method: string, params: unknown[] = []) => world.chain.provider.send(method, params);
    await rpc("evm_setIntervalMining", [100]);
    await world.loseDatabase();
    const payer = await world.payer();
    await rpc("evm_setIntervalMining", [0]);
    const core = await world.core({ RENEWALS: "false", FINALITY_DEPTH: "64" });
    const snapshot = await rpc("evm_snapshot");
    for (let mined = 0; mined < 10; mined++) await rpc("evm_mine");
    await core.indexer.catchUp();
    const acceptedAt = core.indexer.applied();
    await rpc("evm_setIntervalMining", [100]);
    const request = await world.signExact({ payer });
    const first = await core.payments.settleExact(request);
    expect(first.kind).to.equal("settled");
    await rpc("evm_setIntervalMining", [0]);
    await rpc("evm_revert", [snapshot]);
    await core.indexer.catchUp();
    expect(core.indexer.applied()).to.be.lessThan(acceptedAt);
    await rpc("evm_setIntervalMining", [500]);
    const again = await core.payments.settleExact(request);
    expect(again.kind, JSON.stringify(again)).to.equal("settled");
    const row = await core.store.db.selectFrom("payments").selectAll().executeTakeFirstOrThrow();
    expect(row.block_number).to.be.at.most(acceptedAt);
  });
});
