import { expect } from "chai";
import { sql } from "kysely";
import type { Hex } from "turnpike/protocol";
import { listPayments } from "../../../facilitator/src/analytics/lists";
import { Secret } from "../../../facilitator/src/config/setting";
import { MIGRATIONS } from "../../../facilitator/src/db/migrations";
import { connectStore, openStore } from "../../../facilitator/src/db/open";
import { listEvents } from "../../../facilitator/src/events/list";
import { createGrants } from "../../../facilitator/src/payments/grants";
import { paymentPayload } from "../../../facilitator/src/payments/rows";
import { startPostgres, type TestPostgres } from "../../support/postgres";

/** What the release before goes on running on: new tables, indexes and columns that it need not know. */
const ADDITIVE = [
  /^create table \w+ \(/,
  /^create (unique )?index \w+ on \w+/,
  /^drop index \w+$/,
  /^alter table \w+ add column \w+ [^,]+$/,
  /^alter table \w+ alter column \w+ set storage \w+$/,
  /^alter table \w+ set \(autovacuum_\w+ = \d+(, toast\.autovacuum_\w+ = \d+)?\)$/,
  /^alter table \w+ alter column \w+ set statistics \d+(, alter column \w+ set statistics \d+)*$/,
  /^insert into \w+/,
];

const digits = (digit: string): Hex => `0x${digit.repeat(64)}`;

const PAID = {
  chain_id: 1,
  payment_id: digits("1"),
  door: "settle" as const,
  resource_hash: digits("2"),
  resource_shown: "/a",
  token: `0x${"aA".repeat(20)}`,
  payer: `0x${"bB".repeat(20)}`,
  pay_to: `0x${"cC".repeat(20)}`,
  amount: "5",
  nonce: digits("3"),
  valid_after: 0,
  valid_before: 9,
  signature: "0x",
  has_code: false,
  state: "settled" as const,
  fail_code: null,
  fail_reason: null,
  is_reversed: false,
  attempts: 1,
  accepted_at_ms: 4,
  accepted_block: 3,
  transaction_id: "t",
  tx_hash: digits("4"),
  block_number: 4,
  block_hash: digits("5"),
  block_time: 8,
  log_index: 2,
  settled_at_ms: 6,
  method: "eip3009" as const,
  permitted: null,
  sender: null,
  token_permit: null,
};

const EVENT = {
  id: digits("6"),
  chain_id: 1,
  type: "payment.settled",
  object_id: PAID.payment_id,
  sequence: 1,
  provider: PAID.pay_to,
  payer: PAID.payer,
  block_number: 4,
  block_hash: PAID.block_hash,
  log_index: 2,
  block_time: 8,
  transaction: PAID.tx_hash,
};

describe("Facilitator: migrations", function () {
  this.timeout(120_000);

  it("are additive: the release before runs on the tables of this one, unless a step says that it cannot", () => {
    for (const { id, statements, isBreaking } of MIGRATIONS) {
      if (isBreaking) continue;
      for (const statement of statements) {
        const text = statement.replace(/\s+/g, " ").trim().toLowerCase();
        expect(
          ADDITIVE.some((form) => form.test(text)),
          `${id}: ${text}`,
        ).to.equal(true);
        if (!text.includes(" add column ")) continue;
        const isRequired = text.includes("not null") && !text.includes("default");
        expect(isRequired, `${id}: an insert of the release before leaves it out: ${text}`).to.equal(false);
      }
    }
  });

  it("add no unique rule to an existing table", () => {
    const made = new Map<string, string>();
    for (const { id, statements } of MIGRATIONS) {
      for (const statement of statements) {
        const [, table] = /^\s*create table (\w+)/i.exec(statement) ?? [];
        if (table) made.set(table, id);
        const [, indexed] = /^\s*create unique index \w+ on (\w+)/i.exec(statement) ?? [];
        if (indexed) expect(made.get(indexed), `${id}: ${statement}`).to.equal(id);
      }
    }
  });

  it("have names of their own, which never change", () => {
    const ids = MIGRATIONS.map(({ id }) => id);
    expect(new Set(ids).size).to.equal(ids.length);
    expect(ids.slice(0, 2)).to.deep.equal(["001-initial", "100-signed-acts"]);
  });

  describe("on PostgreSQL", () => {
    let postgres: TestPostgres;
    before(async () => {
      postgres = await startPostgres();
    });
    after(() => postgres.stop());
    const open = (url: string) => openStore({ kind: "postgres", url: new Secret(url), poolSize: 2 });

    it("run once when five processes open the database at once", async () => {
      const url = await postgres.database();
      const stores = await Promise.all(Array.from({ length: 5 }, () => open(url)));
      const applied = stores.map(({ migrated }) => migrated.length).sort((a, b) => b - a);
      expect(applied).to.deep.equal([MIGRATIONS.length, 0, 0, 0, 0]);
      for (const store of stores) await store.close();
    });

    it("have the database read a small sample of every column, and vacuum slowly, where payments fill a table", async () => {
      const store = await open(await postgres.database());
      const { rows: columns } = await sql<{ name: string }>`
        select c.relname || '.' || a.attname as name from pg_attribute a join pg_class c on c.oid = a.attrelid
        where c.relname in ('payments', 'events', 'transactions', 'transaction_hashes') and a.attnum > 0
          and not a.attisdropped and a.attstattarget is distinct from 20`.execute(store.db);
      expect(columns, "one column with more makes the sample as large as that one asks for").to.deep.equal([]);
      const { rows: tables } = await sql<{ relname: string; reloptions: string[] }>`
        select relname, reloptions from pg_class where reloptions is not null and relkind = 'r' order by relname`.execute(
        store.db,
      );
      expect(tables.map(({ relname, reloptions }) => `${relname} ${reloptions.join()}`)).to.deep.equal(
        ["events", "payments", "rollup_payers", "staged_events", "transaction_hashes", "transactions"].map(
          (table) => `${table} autovacuum_vacuum_cost_delay=5`,
        ),
      );
      await store.close();
    });

    it("S5 leave payments, their purchases and their events as they were", async () => {
      const url = await postgres.database();
      const older = await connectStore({ kind: "postgres", url: new Secret(url), poolSize: 2 });
      const compact = MIGRATIONS.findIndex(({ id }) => id === "530-compact-payments");
      await sql`create table migrations (id text primary key, applied_at timestamptz not null default now())`.execute(
        older.db,
      );
      for (const { id, statements } of MIGRATIONS.slice(0, compact)) {
        for (const statement of statements) await sql.raw(statement).execute(older.db);
        await sql`insert into migrations (id) values (${id})`.execute(older.db);
      }
      const row = { ...PAID, signature: `0x${"Ab".repeat(70)}` };
      for (const [table, values] of [
        ["payments", row],
        [
          "payments",
          { ...PAID, payment_id: digits("7"), state: "queued", tx_hash: null, block_hash: null, log_index: null },
        ],
        ["payment_grants", { chain_id: 1, payment_id: PAID.payment_id, grant_id: digits("9"), is_gate: true }],
        ["events", { ...EVENT, payload: JSON.stringify(paymentPayload(PAID)) }],
      ] as const) {
        await sql`insert into ${sql.table(table)} (${sql.join(Object.keys(values).map((name) => sql.ref(name)))})
          values (${sql.join(Object.values(values))})`.execute(older.db);
      }
      await older.close();
      const store = await open(url);
      expect(store.migrated).to.include("530-compact-payments");
      const listed = await listPayments(
        store.db,
        { chainId: 1, payTo: PAID.pay_to, payer: PAID.payer, status: "settled" },
        { after: undefined, limit: 9 },
      );
      expect(listed).to.deep.equal([{ ...row, signature: row.signature.toLowerCase(), traceparent: null, memo: null }]);
      const grants = createGrants(store, 1);
      const isOwn = (digit: string) => grants.isOwn(PAID.payment_id, { grantId: digits(digit), isGate: true });
      expect([await isOwn("9"), await isOwn("8")]).to.deep.equal([true, false]);
      const owner = { provider: PAID.pay_to, chainIds: [1] };
      const { events } = await listEvents(store.db, { owner, after: "0", limit: 9 });
      expect(events.map(({ data }) => data)).to.deep.equal([paymentPayload(PAID)]);
      await store.close();
    });

    it("of a newer release are no obstacle, unless they say that this one cannot run on them", async () => {
      const url = await postgres.database();
      const store = await open(url);
      await sql`insert into migrations (id) values ('900-newer')`.execute(store.db);
      const again = await open(url);
      expect(again.migrated).to.deep.equal([]);
      await again.close();
      await sql`insert into migrations (id, breaking) values ('901-breaking', true)`.execute(store.db);
      const refused = await open(url).then(
        () => "opened",
        (error: Error) => error.message,
      );
      expect(refused).to.match(/newer version \(it has 901-breaking\)/);
      await store.close();
    });
  });
});
