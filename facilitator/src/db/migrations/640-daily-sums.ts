/**
 * Keeps the sums of events by day once, and the plans' apart, in place of seven tables, one for each question. Hours and
 * the sums of deleted events have the same columns.
 */
import type { Migration } from "./migration";

const SUM = "count bigint not null, amount numeric(78,0) not null";

const totals = (table: string) => `create table ${table} (
  chain_id bigint not null, provider text not null, grain int not null, bucket bigint not null, kind text not null,
  token text not null, interval_sec bigint not null, ${SUM},
  primary key (chain_id, provider, grain, bucket, kind, token, interval_sec))`;

const plans = (table: string) => `create table ${table} (
  chain_id bigint not null, provider text not null, bucket bigint not null, plan_id text not null, kind text not null,
  token text not null, ${SUM}, primary key (chain_id, provider, bucket, plan_id, kind, token))`;

/** The days of charges for periods, by their length; what is left of each scheme; what is counted alone. */
const filledTotals = (
  table: string,
  { volume, days, counts }: { readonly volume: string; readonly days: string; readonly counts: string },
) => `insert into ${table}
  with periods as materialized (
    select r.chain_id, o.owner, r.bucket, r.kind, r.token, p.interval_sec, sum(r.count) as count, sum(r.amount) as amount
    from ${days} r join plans p on p.chain_id = r.chain_id and p.plan_id = r.plan_id
    cross join lateral (values (''), (r.provider)) o (owner)
    where r.kind in ('signup', 'renewal', 'resume', 'plan-change') group by 1, 2, 3, 4, 5, 6),
  of_scheme as (select chain_id, owner, bucket, kind, token, sum(count) as count, sum(amount) as amount
    from periods group by 1, 2, 3, 4, 5)
  select * from (
    select chain_id, owner as provider, 86400 as grain, bucket, kind, token, interval_sec, count, amount from periods
    union all
    select v.chain_id, v.provider, v.grain, v.bucket, v.kind, v.token, 0, v.count - coalesce(s.count, 0),
      v.amount - coalesce(s.amount, 0)
    from ${volume} v left join of_scheme s on v.grain = 86400 and s.chain_id = v.chain_id and s.owner = v.provider
      and s.bucket = v.bucket and s.kind = v.kind and s.token = v.token
    union all select chain_id, provider, 86400, bucket, kind, '', 0, count, 0 from ${counts} c) t
  where count <> 0 or amount <> 0 order by grain, bucket - bucket % 604800, provider, bucket, kind`;

const filledPlans = (table: string, days: string) => `insert into ${table}
  select chain_id, provider, bucket, plan_id, kind, token, count, amount from ${days} d where count <> 0 or amount <> 0
  order by bucket - bucket % 2419200, provider, bucket, plan_id`;

const PLAN_DAYS = `(select r.chain_id, r.provider, r.bucket, r.plan_id, r.scheme as kind, p.token, r.count, r.amount
  from rollup_provider_plans r join plans p on p.chain_id = r.chain_id and p.plan_id = r.plan_id
  where r.grain = 86400 and r.provider <> '')`;

const PRUNED_PLAN_DAYS = `(select r.chain_id, r.provider, r.bucket, r.plan_id, r.scheme as kind, p.token, r.count, r.amount
  from pruned_plans_before r join plans p on p.chain_id = r.chain_id and p.plan_id = r.plan_id where r.provider <> '')`;

const prunedSums = (
  condition: string,
) => `(select p.chain_id, o.owner as provider, p.grain, p.bucket, p.counted as kind,
    p.token, sum(p.count) as count, sum(p.amount) as amount
  from pruned_sums p cross join lateral (values (''), (p.provider)) o (owner) where ${condition} group by 1, 2, 3, 4, 5, 6)`;

export const dailySums: Migration = {
  id: "640-daily-sums",
  // A process of the release before would write to tables that are gone.
  isBreaking: true,
  statements: [
    totals("rollup_totals"),
    filledTotals("rollup_totals", {
      volume: "(select chain_id, provider, grain, bucket, scheme as kind, token, count, amount from rollup_volume)",
      days: PLAN_DAYS,
      counts: `(select chain_id, provider, bucket, type as kind, count from rollup_events where grain = 86400
        union all select chain_id, provider, bucket, concat(type, ' ', cause), count from rollup_causes)`,
    }),
    // That of an early release, which nothing has used since.
    "drop table rollup_plans",
    plans("rollup_plans"),
    filledPlans("rollup_plans", PLAN_DAYS),
    "alter table pruned_plans rename to pruned_plans_before",
    totals("pruned_totals"),
    filledTotals("pruned_totals", {
      volume: prunedSums("p.token <> ''"),
      days: PRUNED_PLAN_DAYS,
      counts: prunedSums("p.token = ''"),
    }),
    plans("pruned_plans"),
    filledPlans("pruned_plans", PRUNED_PLAN_DAYS),
    ...["rollup_volume", "rollup_provider_plans", "rollup_events", "rollup_recurring", "rollup_causes"].map(
      (table) => `drop table ${table}`,
    ),
    ...["rollup_provider_spans", "pruned_sums", "pruned_plans_before"].map((table) => `drop table ${table}`),
    "delete from cursors where name like 'gathered rollup_%' and name not like 'gathered rollup_funnel%'",
  ],
};
