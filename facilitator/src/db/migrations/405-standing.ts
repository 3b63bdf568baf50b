/** Adds rollups of when subscriptions end, and of what providers were paid in four weeks, instead of counting rows. */
import type { Migration } from "./migration";

/** Subscriptions neither cancelled nor paused, with the day on which service ends, in days since 1970. */
const ENDS = `select s.chain_id, p.provider, p.token, s.plan_id, p.interval_sec, p.amount,
    (s.paid_through + case when s.ending then 0 else p.grace_sec end) / 86400 as day
  from subscriptions s join plans p on p.chain_id = s.chain_id and p.plan_id = s.plan_id
  where not s.cancelled and not s.paused`;

export const standing: Migration = {
  id: "405-standing",
  statements: [
    `create table rollup_standing (
      chain_id bigint not null, provider text not null, token text not null, bucket bigint not null,
      interval_sec bigint not null, count bigint not null, amount numeric(78,0) not null,
      primary key (chain_id, provider, token, bucket, interval_sec))`,
    `create table rollup_plan_standing (
      chain_id bigint not null, bucket bigint not null, plan_id text not null, ends bigint[] not null,
      primary key (chain_id, bucket, plan_id))`,
    `create table rollup_provider_spans (
      chain_id bigint not null, token text not null, bucket bigint not null, provider text not null,
      count bigint not null, amount numeric(78,0) not null, primary key (chain_id, token, bucket, provider))`,
    `insert into rollup_standing select e.chain_id, o.owner, e.token, e.day * 86400, e.interval_sec, count(*), sum(e.amount)
      from (${ENDS}) e cross join lateral (values (''), (e.provider)) o (owner) group by 1, 2, 3, 4, 5`,
    `insert into rollup_plan_standing
      with by_day as (select chain_id, plan_id, day, count(*) as count from (${ENDS}) e group by 1, 2, 3)
      select k.chain_id, k.first * 86400, k.plan_id, array_agg(coalesce(b.count, 0) order by n.day)
      from (select distinct chain_id, plan_id, day - day % 28 as first from by_day) k
      cross join generate_series(0, 27) n (day)
      left join by_day b on b.chain_id = k.chain_id and b.plan_id = k.plan_id and b.day = k.first + n.day
      group by k.chain_id, k.first, k.plan_id order by k.first, k.plan_id`,
    `insert into rollup_provider_spans select chain_id, token, bucket - bucket % 2419200, provider, sum(count), sum(amount)
      from rollup_providers group by 1, 2, 3, 4 order by 3, 4`,
    // Finds subscriptions that end today without reading every plan.
    `create index subscriptions_ends on subscriptions (chain_id, ending, paid_through) include (plan_id)
      where not cancelled and not paused`,
    `drop index subscriptions_standing`,
  ],
};
