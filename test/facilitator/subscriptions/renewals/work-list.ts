import { expect } from "chai";
import { Secret } from "../../../../facilitator/src/config/setting";
import { openStore, type Store } from "../../../../facilitator/src/db/open";
import { createWorkList, lookAhead, type WorkList } from "../../../../facilitator/src/subscriptions/renewals/work-list";
import { startPostgres, type TestPostgres } from "../../../support/postgres";
import { embeddedStore } from "../../../support/store";

const CHAIN_ID = 31_337;
const NOW = 1_800_000_000;
const HOUR = 3_600;
const LEASE_SEC = 30;
const hash = (text: string): string => `0x${Buffer.from(text).toString("hex").padStart(64, "0")}`;
const address = (text: string): string => `0x${Buffer.from(text).toString("hex").padStart(40, "0")}`;

const DATABASES = [
  ["the embedded database", undefined],
  ["PostgreSQL", startPostgres],
] as const;

for (const [name, start] of DATABASES) {
  describe(`Facilitator: the renewals' work list on ${name}`, function () {
    this.timeout(120_000);
    let postgres: TestPostgres | undefined;
    let store: Store;
    let nowMs: number;

    before(async () => {
      postgres = await start?.();
      store = postgres
        ? await openStore({ kind: "postgres", url: new Secret(await postgres.database()), poolSize: 4 })
        : await embeddedStore();
    });
    beforeEach(async () => {
      nowMs = 0;
      for (const table of ["renewal_due", "subscriptions", "plans"] as const)
        await store.db.deleteFrom(table).execute();
    });
    after(async () => {
      await store.close();
      await postgres?.stop();
    });

    const listOf = (owner: string, limit = 10): WorkList =>
      createWorkList({ db: store.db, chainId: CHAIN_ID, owner, limit, leaseSec: LEASE_SEC, monotonicMs: () => nowMs });

    /** A plan of `provider` and subscriptions of it that are due, named and with their ends of grace. */
    async function due(
      provider: string,
      graceSec: number,
      rows: readonly (readonly [string, number])[],
    ): Promise<void> {
      const planId = hash(`${provider}${graceSec}`);
      await store.db
        .insertInto("plans")
        .values({
          chain_id: CHAIN_ID,
          plan_id: planId,
          plan_index: graceSec,
          provider: address(provider),
          token: address("token"),
          amount: "1000",
          interval_sec: 30 * 24 * HOUR,
          grace_sec: graceSec,
          pay_to: address("payee"),
          salt: hash("salt"),
          metadata: "{}",
          deprecated: false,
          successor: null,
          block_number: 1,
          created_at: 1,
        })
        .execute();
      for (const [subscription, paidThrough] of rows) {
        const row = { chain_id: CHAIN_ID, id_hash: hash(subscription), paid_through: paidThrough };
        await store.db
          .insertInto("subscriptions")
          .values({
            ...row,
            subscriber: address("subscriber"),
            plan_id: planId,
            version: 0,
            paused: false,
            ending: false,
            cancelled: false,
            moved_to: null,
            block_number: 1,
            created_at: 1,
            transaction: hash("tx"),
          })
          .execute();
        const unclaimed = { attempts: 0, lease_owner: null, lease_until: 0, provider: null, grace_ends_at: null };
        await store.db
          .insertInto("renewal_due")
          .values({ ...row, ...unclaimed, due_at: paidThrough })
          .execute();
      }
    }
    const named = (rows: readonly { id_hash: string }[]): string[] =>
      rows.map(({ id_hash }) => Buffer.from(id_hash.slice(2), "hex").toString().replace(/\0/g, ""));

    it("gives what is due with the least grace left first, whatever was due first", async () => {
      await due("p", 3 * HOUR, [
        ["early, three hours", NOW - 100],
        ["late, three hours", NOW - 50],
      ]);
      await due("p", HOUR, [["last, one hour", NOW]]);
      await due("p", 2 * HOUR, [["not due", NOW + 1]]);
      expect(named(await listOf("a").claim(NOW))).to.deep.equal([
        "last, one hour",
        "early, three hours",
        "late, three hours",
      ]);
    });

    it("gives each row to one owner, until the lease has ended", async () => {
      await due(
        "p",
        HOUR,
        Array.from({ length: 6 }, (_, i) => [`s${i}`, NOW - i] as const),
      );
      const [a, b] = [listOf("a", 4), listOf("b", 4)];
      const first = [...named(await a.claim(NOW)), ...named(await b.claim(NOW))];
      expect(new Set(first).size).to.equal(first.length);
      nowMs = 60_000;
      first.push(...named(await b.claim(NOW)));
      expect(first.sort()).to.deep.equal(["s0", "s1", "s2", "s3", "s4", "s5"]);
      expect(await a.claim(NOW)).to.deep.equal([]);
      // One goes on, the other is gone.
      await a.extend(NOW + LEASE_SEC - 1);
      nowMs = 120_000;
      const taken = named(await listOf("c").claim(NOW + LEASE_SEC)).sort();
      expect(taken).to.have.length(2);
    });

    it("HD9 what a stopped owner has not finished is another's within a second, and nothing else is touched", async () => {
      await due("p", HOUR, [
        ["finished", NOW],
        ["unfinished", NOW],
      ]);
      await due("q", HOUR, [["of another", NOW]]);
      const [stopped, other] = [listOf("stopped", 2), listOf("other", 2)];
      expect(named(await other.claim(NOW))).to.have.length(2);
      const rows = await stopped.claim(NOW);
      expect(rows).to.have.length(1);
      expect(await stopped.release(NOW), "only its own").to.equal(1);
      expect(named(await listOf("next").claim(NOW + 1))).to.deep.equal(named(rows));
    });

    it("says when there will be something: the next row's time, or the end of a lease", async () => {
      const list = listOf("a");
      expect(await list.nextDueSec()).to.equal(Number.POSITIVE_INFINITY);
      await due("p", HOUR, [
        ["soon", NOW + 7],
        ["now", NOW],
      ]);
      expect(await list.claim(NOW)).to.have.length(1);
      expect(await list.nextDueSec()).to.equal(NOW + 7);
      expect(await list.claim(NOW + 7)).to.have.length(1);
      expect(await listOf("b").nextDueSec()).to.equal(NOW + LEASE_SEC);
    });

    it("reports what is claimed and what comes next, for a caller that waits until all is done", async () => {
      const ahead = (nowSec: number) => lookAhead(store.db, CHAIN_ID, nowSec, LEASE_SEC);
      expect(await ahead(NOW)).to.deep.equal({ underWay: 0 });
      await due("p", HOUR, [
        ["now", NOW],
        ["soon", NOW + 7],
        ["in a day", NOW + 24 * HOUR],
      ]);
      const list = listOf("a");
      const rows = await list.claim(NOW);
      expect(await ahead(NOW)).to.deep.equal({ underWay: 1, nextDueSec: NOW + 7 });
      await list.postpone(rows.map((row) => ({ ...row, dueAtSec: NOW + HOUR, attempts: 1 })));
      expect(await ahead(NOW)).to.deep.equal({ underWay: 0, nextDueSec: NOW + 7 });
      expect(await ahead(NOW + 7)).to.deep.equal({ underWay: 0, nextDueSec: NOW + HOUR });
    });

    it("one provider's thousand keep nobody else waiting", async () => {
      await due(
        "big",
        HOUR,
        Array.from({ length: 60 }, (_, i) => [`big ${i}`, NOW - 1_000 + i] as const),
      );
      await due("small", 5 * HOUR, [["small 1", NOW]]);
      await due("tiny", 6 * HOUR, [["tiny 1", NOW]]);
      const first = named(await listOf("a").claim(NOW));
      expect(first).to.have.length(10);
      expect(first).to.include.members(["small 1", "tiny 1", "big 0", "big 7"]);
    });

    it("a postponed row comes back at its time, a row of another period is left alone, a removed row never comes", async () => {
      await due("p", HOUR, [
        ["later", NOW],
        ["moved", NOW],
        ["gone", NOW],
      ]);
      const list = listOf("a");
      const rows = await list.claim(NOW);
      const one = (wanted: string) => rows[named(rows).indexOf(wanted)] as (typeof rows)[number];
      await store.db
        .updateTable("renewal_due")
        .set({ paid_through: NOW + 999, due_at: NOW + 999, lease_owner: null })
        .where("id_hash", "=", hash("moved"))
        .execute();
      await list.postpone([
        { ...one("later"), dueAtSec: NOW + 10, attempts: 1 },
        { ...one("moved"), dueAtSec: NOW + 10, attempts: 1 },
      ]);
      await list.remove([one("gone")]);
      expect(await list.claim(NOW + 9)).to.deep.equal([]);
      const again = await list.claim(NOW + 10);
      expect(named(again)).to.deep.equal(["later"]);
      expect(again[0]?.attempts).to.equal(1);
      expect(named(await list.claim(NOW + 999))).to.include("moved");
    });
  });
}
