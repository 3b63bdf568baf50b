import { expect } from "chai";
import type { SignedPayment } from "turnpike/protocol";
import { createCosts, keepCosts, transactionCosts } from "../../../facilitator/src/analytics/costs";
import { findWrongSums } from "../../../facilitator/src/analytics/recount";
import type { Core } from "../../../facilitator/src/app/core";
import type { Tx } from "../../../facilitator/src/db/open";
import { transactionsAwaited } from "../../../facilitator/src/payments/ledger";
import { deleteOldTransactions } from "../../../facilitator/src/relayer/retention";
import { finaliseTransactions } from "../../../facilitator/src/relayer/transactions";
import { type FacilitatorWorld, startWorld } from "../../support/facilitator";

const DAY_MS = 86_400_000;

describe("Facilitator: transactions that are no longer kept", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;

  before(async () => {
    world = await startWorld();
    core = await world.core();
  });
  after(() => world.stop());

  const run = (beforeMs: number): Promise<number> => {
    const { store, config } = core;
    const onDelete = (tx: Tx, ids: readonly string[]) => keepCosts(tx, config.chainId, ids);
    return deleteOldTransactions({ store, chainId: config.chainId, awaited: transactionsAwaited, onDelete }, beforeMs);
  };
  const transactions = () => core.store.db.selectFrom("transactions").selectAll().orderBy("seq").execute();
  const hashes = () => core.store.db.selectFrom("transaction_hashes").selectAll().execute();
  async function settle(): Promise<SignedPayment> {
    const signed = await world.signPayment();
    expect((await core.payments.authorize(signed)).kind).to.equal("settled");
    return signed;
  }
  /** As the indexer does it, many blocks later. */
  const finalise = (): Promise<void> =>
    core.store.transaction(async (tx) => {
      const { chainId } = core.config;
      await transactionCosts.finalised(tx, chainId, await finaliseTransactions(tx, chainId, core.indexer.applied()));
    });
  const wrongSums = () => findWrongSums(core.store.db, core.config.chainId, 0);

  it("S3 S5 a payment whose transaction is deleted keeps its proof, is not sent again, and costs still add up", async () => {
    const signed = await world.signPayment();
    const first = await core.payments.authorize(signed);
    if (first.kind !== "settled") expect.fail(`it is ${first.kind}`);
    expect(await run(Date.now() + DAY_MS), "one that may be reverted is kept").to.equal(0);
    await finalise();
    expect(await run(Date.now() - DAY_MS), "a young one is kept").to.equal(0);
    expect(await run(Date.now() + DAY_MS)).to.equal(1);
    expect([await transactions(), await hashes()]).to.deep.equal([[], []]);
    const again = await core.payments.authorize(signed);
    if (again.kind !== "settled") expect.fail(`it is ${again.kind}`);
    expect(again.proof).to.deep.equal(first.proof);
    expect(await core.payments.verifyProof(first.proof)).to.include({ kind: "valid" });
    expect(await world.transfers()).to.have.length(1);
    expect(await createCosts(core.store.db, core.config.chainId, undefined).of(first.proof.transaction)).to.equal(
      undefined,
    );
    expect(await wrongSums()).to.deep.equal([]);
  });

  it("a sum that is wrong is found after the deletion, too", async () => {
    await core.store.db.updateTable("rollup_costs").set({ transactions: 7 }).execute();
    expect(await wrongSums()).to.have.length(1);
    await core.store.db.updateTable("rollup_costs").set({ transactions: 1 }).execute();
    expect(await wrongSums()).to.deep.equal([]);
  });

  it("deletes in the order of creation, waits for one that is not final, and leaves other purposes without bytes", async () => {
    for (const _ of [1, 2]) await settle();
    await finalise();
    const [act, open, ...others] = await transactions();
    expect(others).to.deep.equal([]);
    const change = (id: string | undefined) => core.store.db.updateTable("transactions").where("id", "=", id ?? "");
    await change(act?.id).set({ purpose: "renew" }).execute();
    await change(open?.id).set({ is_final: false }).execute();
    expect(await run(Date.now() + DAY_MS)).to.equal(1);
    expect((await transactions()).map(({ id, data }) => [id, data === ""])).to.deep.equal([
      [act?.id, true],
      [open?.id, false],
    ]);
    const bytes = new Map((await hashes()).map((row) => [row.transaction_id, row.raw]));
    expect([bytes.get(act?.id ?? ""), bytes.get(open?.id ?? "")?.slice(0, 4)]).to.deep.equal(["", "0x02"]);
    expect(await run(Date.now() + DAY_MS)).to.equal(0);
    await change(open?.id).set({ is_final: true }).execute();
    expect(await run(Date.now() + DAY_MS)).to.equal(1);
    expect((await transactions()).map(({ id }) => id)).to.deep.equal([act?.id]);
  });

  it("a transaction is kept as long as one of its payments waits for its outcome", async () => {
    const signed = await settle();
    await finalise();
    const { db } = core.store;
    const ids = (await transactions()).map(({ id }) => id);
    // A sender that lives would look at it with the next block.
    await core.payments.stop();
    await db.updateTable("payments").where("payment_id", "=", world.idOf(signed)).set({ state: "sent" }).execute();
    expect(await run(Date.now() + DAY_MS)).to.equal(0);
    expect((await transactions()).map(({ id }) => id)).to.deep.equal(ids);
  });

  it("later ones do not wait for an old one that is unmined, of a key that no process has", async () => {
    await world.loseDatabase();
    core = await world.core();
    for (const _ of [1, 2]) await settle();
    await finalise();
    const rows = (await transactions()).slice(-2);
    await core.relayer.stop();
    const { db } = core.store;
    const change = () => db.updateTable("transactions").where("id", "=", rows[0]?.id ?? "");
    await db
      .updateTable("lanes")
      .set({ lease_until_ms: Date.now() + DAY_MS })
      .execute();
    await change().set({ status: "stored", is_final: false }).execute();
    expect(await run(Date.now() + DAY_MS), "a lane is about to send it").to.equal(0);
    await change().set({ key: "0xformer" }).execute();
    expect(await run(Date.now() - DAY_MS), "a young one").to.equal(0);
    expect(await run(Date.now() + DAY_MS)).to.equal(2);
    expect((await transactions()).map(({ id }) => id)).to.deep.equal([rows[0]?.id]);
  });
});
