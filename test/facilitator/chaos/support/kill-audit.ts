/** After the killing: every accepted request has one outcome, and transfers on chain = settled rows = proofs. */
import { expect } from "chai";
import type { Core } from "../../../../facilitator/src/app/core";
import { type FacilitatorWorld, until } from "../../../support/facilitator";
import type { Answered } from "./kill-clients";

/** @param core a sound process on the same database, which ends what is still under way */
export async function audit(world: FacilitatorWorld, core: Core, answered: readonly Answered[]): Promise<void> {
  const { db } = core.store;
  const rowsIn = (states: ("queued" | "sent" | "parked" | "settled" | "failed")[]) =>
    db.selectFrom("payments").selectAll().where("state", "in", states).execute();
  await until(async () => (await rowsIn(["queued", "sent", "parked"])).length === 0, "nothing is under way", 120_000);
  const openTransactions = () =>
    db.selectFrom("transactions").select("id").where("status", "in", ["queued", "stored"]).execute();
  await until(async () => (await openTransactions()).length === 0, "every transaction has landed", 120_000);

  for (const { outcomes, paymentId } of answered) {
    expect([...outcomes], `answers about ${paymentId}: ${[...outcomes].join(" | ")}`).to.have.length(1);
    expect([...outcomes][0], `answers about ${paymentId}`).to.match(/"transaction":"0x[0-9a-f]{64}"/);
  }
  const transfers = await world.transfers();
  const byPayer = (addresses: readonly string[]): string[] => [...addresses].sort();
  const payers = byPayer(answered.map(({ payer }) => payer));
  expect(byPayer(transfers.map(({ from }) => from)), "one transfer for each").to.deep.equal(payers);
  const settled = await rowsIn(["settled"]);
  expect(byPayer(settled.map((row) => row.payer)), "one settled row for each").to.deep.equal(payers);
  expect(await rowsIn(["failed"])).to.deep.equal([]);

  const onChain = new Map(transfers.map(({ from, transaction }) => [from, transaction]));
  const proven = new Map(
    answered.map(({ payer, outcomes }) => [payer, JSON.parse([...outcomes][0] ?? "{}").transaction]),
  );
  for (const row of settled) {
    expect(row.tx_hash, "the row's transaction").to.equal(onChain.get(row.payer));
    expect(proven.get(row.payer), "the proof's transaction").to.equal(onChain.get(row.payer));
  }
  const events = await db.selectFrom("events").selectAll().where("type", "=", "payment.settled").execute();
  const standing = events.filter(({ reverted }) => !reverted).map(({ object_id }) => object_id);
  expect(byPayer(standing), "one event for each").to.deep.equal(byPayer(answered.map(({ paymentId }) => paymentId)));
  await requireNoncesInOrder(world, core);
}

/** S7: no gap, no nonce twice, none under an epoch that was over. */
export async function requireNoncesInOrder(world: FacilitatorWorld, core: Core): Promise<void> {
  for (const key of core.relayer.addresses) {
    const rows = await core.store.db
      .selectFrom("transactions")
      .select(["nonce", "epoch", "status"])
      .where("key", "=", key)
      .orderBy("nonce")
      .execute();
    expect(rows.map(({ nonce }) => nonce)).to.deep.equal(rows.map((_, index) => index));
    expect(rows.every(({ status }) => status === "mined")).to.equal(true);
    const epochs = rows.map(({ epoch }) => epoch ?? 0);
    expect(epochs, "epochs only rise").to.deep.equal([...epochs].sort((a, b) => a - b));
    expect(await world.chain.provider.getTransactionCount(key)).to.equal(rows.length);
  }
}
