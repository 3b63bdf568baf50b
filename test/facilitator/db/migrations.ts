import { expect } from "chai";
import { sql } from "kysely";
import { Secret } from "../../../facilitator/src/config/setting";
import { MIGRATIONS } from "../../../facilitator/src/db/migrations";
import { openStore } from "../../../facilitator/src/db/open";
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
