/** The migration that joins the sums of events, on a database of the release before it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { sql } from "kysely";
import { findWrongSums } from "../../../facilitator/src/analytics/recount";
import { MIGRATIONS } from "../../../facilitator/src/db/migrations";
import { connectStore, openStore, type Store } from "../../../facilitator/src/db/open";

const CHAIN_ID = 31_337;
const TOKEN = `0x${"c0".repeat(20)}`;
const START_SEC = 1_800_000_000;
const MIGRATION = "640-daily-sums";

const SCHEMES = `(values ('payment.settled', 'one-time'), ('subscription.created', 'signup'),
  ('subscription.renewed', 'renewal'), ('allowance.debited', 'overage'), ('refund.settled', 'refund')) s (type, scheme)`;

/** Each third of the one-time payments and refunds is deleted, as retention deletes them. */
const IS_PRUNED = "e.seq % 3 = 0 and e.type in ('payment.settled', 'refund.settled')";

/** Three hundred events of three providers, their plans and five payers, over ten weeks. */
const EVENTS = [
  `insert into plans (chain_id, plan_id, plan_index, provider, token, amount, interval_sec, grace_sec, pay_to, salt,
      metadata, deprecated, successor, block_number, created_at)
    select ${CHAIN_ID}, 'plan ' || i, i, 'provider ' || i % 3, '${TOKEN}', 5, case when i % 2 = 0 then 604800 else 2592000 end,
      60, 'payee', '0x', '', false, null, 1, ${START_SEC} from generate_series(0, 5) i`,
  `insert into events (id, chain_id, type, object_id, sequence, provider, payer, payload, block_number, block_hash,
      log_index, block_time, transaction, reverted)
    select 'event ' || i, ${CHAIN_ID}, types[1 + i % 7], 'object ' || i, 1, 'provider ' || i % 6 % 3, 'payer ' || i % 5,
      json_build_object('token', '${TOKEN}', 'amount', (i % 11)::text, 'charged', (i % 11)::text, 'intro', i % 4 = 0,
        'planId', case when types[1 + i % 7] = 'payment.settled' then null else 'plan ' || i % 6 end,
        'reason', case when i % 2 = 0 then 'expired' else 'InsufficientFunds' end),
      i, 'block ' || i, 0, ${START_SEC} + i * 20011, 'transaction ' || i, i % 17 = 0
    from generate_series(1, 300) i, (select array['payment.settled', 'payment.failed', 'subscription.created',
      'subscription.renewed', 'subscription.renewal_failed', 'allowance.debited', 'refund.settled'] as types) t`,
];

/** The sums as the release before kept them. */
const SUMS = [
  `create table valid as select e.*, s.scheme, e.payload->>'planId' as plan, e.block_time as at, ${IS_PRUNED} as pruned,
      (e.payload->>'amount')::numeric as amount
    from events e left join ${SCHEMES} on s.type = e.type where not e.reverted`,
  `create table money as select * from valid where scheme is not null and amount > 0`,
  `insert into rollup_volume select ${CHAIN_ID}, o.owner, g.grain, at - at % g.grain, '${TOKEN}', scheme, count(*), sum(amount)
    from money cross join lateral (values (''), (provider)) o (owner) cross join (values (3600), (86400)) g (grain)
    group by 2, 3, 4, 6`,
  `insert into rollup_provider_plans select ${CHAIN_ID}, provider, g.grain, at - at % g.grain, plan, scheme, count(*), sum(amount)
    from money cross join (values (86400), (604800), (2419200)) g (grain) where plan is not null group by 2, 3, 4, 5, 6`,
  `insert into rollup_payers (chain_id, provider, token, payer, count, amount, refunds, refunded)
    select ${CHAIN_ID}, provider, '${TOKEN}', payer, count(*) filter (where scheme <> 'refund'),
      coalesce(sum(amount) filter (where scheme <> 'refund'), 0), count(*) filter (where scheme = 'refund'),
      coalesce(sum(amount) filter (where scheme = 'refund'), 0) from money group by 2, 4`,
  `insert into pruned_payers (chain_id, provider, token, payer, count, amount, refunds, refunded)
    select ${CHAIN_ID}, provider, '${TOKEN}', payer, count(*) filter (where scheme <> 'refund'),
      coalesce(sum(amount) filter (where scheme <> 'refund'), 0), count(*) filter (where scheme = 'refund'),
      coalesce(sum(amount) filter (where scheme = 'refund'), 0) from money where pruned group by 2, 4`,
  `insert into rollup_events select ${CHAIN_ID}, o.owner, 86400, at - at % 86400, c.type, count(*)
    from valid cross join lateral (values (''), (provider)) o (owner) cross join lateral (select valid.type
      union all select 'trial.begun' where valid.type = 'subscription.created' and payload->>'intro' = 'true') c (type) group by 2, 4, 5`,
  `insert into rollup_causes select ${CHAIN_ID}, o.owner, at - at % 86400, type, payload->>'reason', count(*)
    from valid cross join lateral (values (''), (provider)) o (owner)
    where type in ('payment.failed', 'subscription.renewal_failed') group by 2, 3, 4, 5`,
  `insert into rollup_recurring select ${CHAIN_ID}, o.owner, '${TOKEN}', p.interval_sec, at - at % 86400, count(*), sum(m.amount)
    from money m join plans p on p.plan_id = m.plan cross join lateral (values (''), (m.provider)) o (owner)
    where scheme in ('signup', 'renewal') group by 2, 4, 5`,
  `insert into rollup_providers select ${CHAIN_ID}, '${TOKEN}', at - at % 86400, provider, count(*), sum(amount)
    from money where scheme <> 'refund' group by 3, 4`,
  `insert into pruned_sums select ${CHAIN_ID}, provider, g.grain, at - at % g.grain, scheme, '${TOKEN}', count(*), sum(amount)
    from money cross join (values (3600), (86400)) g (grain) where pruned group by 2, 3, 4, 5`,
  `insert into pruned_sums select ${CHAIN_ID}, provider, 86400, at - at % 86400, type, '', count(*), 0
    from valid where pruned group by 2, 4, 5`,
  `insert into pruned_plans select ${CHAIN_ID}, provider, at - at % 86400, plan, scheme, count(*), sum(amount)
    from money where pruned and plan is not null group by 2, 3, 4, 5`,
  `delete from events e where not e.reverted and ${IS_PRUNED}`,
];

describe("Facilitator: the daily sums of an earlier release", function () {
  this.timeout(120_000);
  let dir: string;
  let store: Store;

  before(async () => {
    dir = mkdtempSync(path.join(tmpdir(), "turnpike-daily-sums-"));
    const database = { kind: "pglite", dir: path.join(dir, "db"), lockMs: 2_000 } as const;
    const earlier = await connectStore(database);
    await sql`create table migrations (id text primary key, applied_at timestamptz not null default now())`.execute(
      earlier.db,
    );
    for (const { id, statements } of MIGRATIONS.slice(
      0,
      MIGRATIONS.findIndex(({ id }) => id === MIGRATION),
    )) {
      for (const statement of statements) await sql.raw(statement).execute(earlier.db);
      await sql`insert into migrations (id) values (${id})`.execute(earlier.db);
    }
    for (const statement of [...EVENTS, ...SUMS]) await sql.raw(statement).execute(earlier.db);
    await earlier.close();
    store = await openStore(database);
  });

  after(async () => {
    await store?.close();
    rmSync(dir, { recursive: true });
  });

  it("T52 equal the events, those that retention deleted included, after the migration", async () => {
    expect(store.migrated).to.include(MIGRATION);
    const rows = await store.db.selectFrom("rollup_totals").select("kind").distinct().orderBy("kind").execute();
    expect(rows.map(({ kind }) => kind)).to.include.members(["one-time", "renewal", "refund", "trial.begun"]);
    expect(rows.map(({ kind }) => kind)).to.include("payment.failed expired");
    expect(await store.db.selectFrom("pruned_plans").selectAll().execute()).to.not.deep.equal([]);
    expect(await findWrongSums(store.db, CHAIN_ID, 0)).to.deep.equal([]);
  });
});
