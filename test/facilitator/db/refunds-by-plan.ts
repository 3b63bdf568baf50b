/** The migration that names the plan of each refund, on a database of the release before it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { sql } from "kysely";
import { type Address, type Hex, type RefundTarget, refundedIdOf } from "turnpike/protocol";
import { recountSums } from "../../../facilitator/src/analytics/event-sums";
import { MIGRATIONS } from "../../../facilitator/src/db/migrations";
import { connectStore, openStore, type Store } from "../../../facilitator/src/db/open";
import { EventFeed } from "../../../facilitator/src/events/feed";

const CHAIN_ID = 31_337;
const turnpike: Address = `0x${"a1".repeat(20)}`;
const digits = (digit: string): Hex => `0x${digit.repeat(64)}`;
const [TOKEN, PROVIDER, PAYER] = ["c0", "a2", "b3"].map((pair) => `0x${pair.repeat(20)}`);
const [PLAN, OTHER_PLAN, ID_HASH] = [digits("1"), digits("2"), digits("3")] as const;
const DAY = 1_800_000_000 - (1_800_000_000 % 86_400);

const idOf = (target: RefundTarget): Hex => refundedIdOf({ chainId: CHAIN_ID, turnpike }, target);
const charge = idOf({ type: "charge", idHash: ID_HASH, version: 2, paidThrough: 900 });
const debit = idOf({ type: "debit", idHash: ID_HASH, index: 4 });

interface Collected {
  readonly type: string;
  readonly plan: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** The charge and the debit that were refunded, between others of the same payer and amount. */
const COLLECTED: readonly Collected[] = [
  { type: "subscription.created", plan: OTHER_PLAN, fields: { charged: "1000", version: 1, paidThrough: 900 } },
  { type: "subscription.renewed", plan: PLAN, fields: { charged: "1000", version: 2, paidThrough: 900 } },
  { type: "allowance.debited", plan: OTHER_PLAN, fields: { amount: "700", index: 3, version: 2, paidThrough: 900 } },
  { type: "allowance.debited", plan: PLAN, fields: { amount: "700", index: 4, version: 2, paidThrough: 900 } },
];

/** What became of each refund; a pruned one has no event, and the event of a staged one is not published. */
const REFUNDS = [
  { of: charge, kind: "charge", paid: "1000", amount: "10", event: "published" },
  { of: charge, kind: "charge", paid: "1000", amount: "20", event: "pruned" },
  { of: charge, kind: "charge", paid: "1000", amount: "40", event: "staged" },
  { of: debit, kind: "debit", paid: "700", amount: "80", event: "published" },
  { of: debit, kind: "debit", paid: "700", amount: "160", event: "reverted" },
  { of: digits("5"), kind: "payment", paid: "900", amount: "320", event: "published" },
] as const;

describe("Facilitator: the plans of earlier refunds", function () {
  this.timeout(120_000);
  let dir: string;
  let store: Store;

  const insert = (db: Store["db"], table: string, row: Readonly<Record<string, unknown>>) =>
    sql`
    insert into ${sql.table(table)} (${sql.join(Object.keys(row).map((name) => sql.ref(name)))})
    values (${sql.join(Object.values(row))})`.execute(db);

  before(async () => {
    dir = mkdtempSync(path.join(tmpdir(), "turnpike-refunds-"));
    const database = { kind: "pglite", dir: path.join(dir, "db"), lockMs: 2_000 } as const;
    const older = await connectStore(database);
    const newest = MIGRATIONS.findIndex(({ id }) => id === "570-refunds-by-plan");
    await sql`create table migrations (id text primary key, applied_at timestamptz not null default now())`.execute(
      older.db,
    );
    for (const { id, statements } of MIGRATIONS.slice(0, newest)) {
      for (const statement of statements) await sql.raw(statement).execute(older.db);
      await sql`insert into migrations (id) values (${id})`.execute(older.db);
    }
    await fill(older.db);
    await older.close();
    store = await openStore(database);
  });
  after(async () => {
    await store?.close();
    rmSync(dir, { recursive: true, force: true });
  });

  async function fill(db: Store["db"]): Promise<void> {
    await insert(db, "chain_contracts", { chain_id: CHAIN_ID, turnpike, batch_settler: turnpike });
    await insert(db, "cursors", { chain_id: CHAIN_ID, name: "pruned events' block", position: 5 });
    for (const [place, plan_id] of [PLAN, OTHER_PLAN].entries())
      await insert(db, "plans", {
        ...{ chain_id: CHAIN_ID, plan_id, plan_index: place, token: TOKEN, amount: "1000", provider: PROVIDER },
        ...{ interval_sec: 60, grace_sec: 1, pay_to: PROVIDER, salt: "0x", metadata: "", deprecated: false },
        ...{ block_number: 1, created_at: 1 },
      });
    for (const [place, { type, plan, fields }] of COLLECTED.entries())
      await insert(db, "events", {
        ...eventRow(`collected ${place}`, type, ID_HASH, place + 1),
        payload: JSON.stringify({ planId: plan, token: TOKEN, ...fields }),
      });
    for (const [place, refund] of REFUNDS.entries()) await fillRefund(db, place, refund);
  }

  const eventRow = (id: string, type: string, object_id: string, sequence: number) => ({
    ...{ id, chain_id: CHAIN_ID, type, object_id, sequence, provider: PROVIDER, payer: PAYER, block_time: DAY + 5 },
    ...{ block_number: 9, block_hash: digits("8"), log_index: sequence },
  });

  async function fillRefund(db: Store["db"], place: number, refund: (typeof REFUNDS)[number]): Promise<void> {
    const id: Hex = `0x${(place + 160).toString(16).padStart(64, "0")}`;
    const { of: refunded_id, kind, paid, amount, event } = refund;
    const parties = { provider: PROVIDER, payer: PAYER, token: TOKEN };
    if (place === 0 || REFUNDS[place - 1]?.of !== refunded_id)
      await insert(db, "refunded", { chain_id: CHAIN_ID, refunded_id, kind, ...parties, amount: paid });
    await insert(db, "refunds", { chain_id: CHAIN_ID, refunded_id, refund_index: place, payment_id: id });
    await sql`insert into payments (chain_id, payment_id, door, resource_hash, resource_shown, token, payer, pay_to, amount,
        nonce, valid_after, valid_before, signature, has_code, state, is_reversed, attempts, accepted_at_ms,
        accepted_block, block_number, block_time, method)
      values (${CHAIN_ID}, ${id}, 'refund', '\\x00', '', ${TOKEN}, ${PROVIDER}, ${PAYER}, ${amount}, '\\x00', 0, 9, '\\x00',
        false, ${event === "reverted" ? "sent" : "settled"}, false, 0, 1, 1, ${event === "pruned" ? 5 : 9}, ${DAY + 5},
        'eip3009')`.execute(db);
    if (event === "pruned") return;
    const draft = { id: `refund ${place}`, type: "refund.settled", objectId: id, payload: { token: TOKEN, amount } };
    if (event === "staged") {
      const whole = { ...draft, chainId: CHAIN_ID, provider: PROVIDER, payer: PAYER, blockTime: DAY + 5 };
      await insert(db, "staged_events", { chain_id: CHAIN_ID, drafts: JSON.stringify([whole]) });
      return;
    }
    await insert(db, "events", {
      ...eventRow(draft.id, draft.type, id, 1),
      ...{ payload: JSON.stringify(draft.payload), reverted: event === "reverted" },
    });
  }

  const refundSums = () =>
    store.db
      .selectFrom("rollup_plans")
      .select(["bucket", "plan_id", "count", "amount"])
      .where("kind", "=", "refund")
      .execute();

  it("T52 are found by the hash of the charge or debit, among others of the same payer and amount", async () => {
    const rows = await store.db.selectFrom("refunded").select(["refunded_id", "plan_id", "id_hash"]).execute();
    const found = new Map(rows.map(({ refunded_id, plan_id, id_hash }) => [refunded_id, [plan_id, id_hash]]));
    expect(found.get(charge)).to.deep.equal([PLAN, ID_HASH]);
    expect(found.get(debit)).to.deep.equal([PLAN, ID_HASH]);
    expect(found.get(digits("5"))).to.deep.equal([null, null]);
    const events = await store.db.selectFrom("events").select("payload").where("type", "like", "refund.%").execute();
    expect(events.map(({ payload }) => [payload.amount, payload.planId])).to.have.deep.members([
      ["10", PLAN],
      ["80", PLAN],
      ["160", PLAN],
      ["320", undefined],
    ]);
  });

  it("T52 fill the sums with what has settled, deleted events included", async () => {
    expect(await refundSums()).to.deep.equal([{ bucket: DAY, plan_id: PLAN, count: 3, amount: "110" }]);
    const payers = await store.db.selectFrom("rollup_payers").select(["payer", "refunds", "refunded"]).execute();
    expect(payers).to.deep.equal([{ payer: PAYER, refunds: 4, refunded: "430" }]);
  });

  it("T52 fill them as a recount does, and what was not published yet is counted once it is", async () => {
    const feed = new EventFeed(CHAIN_ID, []);
    await store.transaction(async (tx) => {
      await feed.lock(tx);
      await recountSums(tx, CHAIN_ID);
    });
    expect(await refundSums()).to.deep.equal([{ bucket: DAY, plan_id: PLAN, count: 4, amount: "150" }]);
  });
});
