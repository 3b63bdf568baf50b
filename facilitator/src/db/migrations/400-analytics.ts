/** Adds rollups of recurring revenue, failure causes, the gates' funnel and transaction costs. */
import type { Migration } from "./migration";

/** Schemes that pay for a period of service, not for usage. */
const PERIODS = "('signup', 'renewal', 'resume', 'plan-change')";

export const analytics: Migration = {
  id: "400-analytics",
  statements: [
    `create table rollup_recurring (
      chain_id bigint not null, provider text not null, token text not null, interval_sec bigint not null,
      bucket bigint not null, count bigint not null, amount numeric(78,0) not null,
      primary key (chain_id, provider, token, interval_sec, bucket))`,
    `create table rollup_causes (
      chain_id bigint not null, provider text not null, bucket bigint not null, type text not null, cause text not null,
      count bigint not null, primary key (chain_id, provider, bucket, type, cause))`,
    `create table rollup_funnel (
      chain_id bigint not null, provider text not null, grain int not null, bucket bigint not null,
      resource text not null, token text not null, step text not null, cause text not null, offer text not null,
      count bigint not null, amount numeric(78,0) not null,
      primary key (chain_id, provider, grain, resource, bucket, token, step, cause, offer))`,
    `create table gate_reports (
      chain_id bigint not null, provider text not null, id text not null, digest text not null,
      accepted_at bigint not null, primary key (chain_id, provider, id))`,
    `create index gate_reports_old on gate_reports (chain_id, accepted_at)`,
    `create table rollup_costs (
      chain_id bigint not null, bucket bigint not null, purpose text not null, transactions bigint not null,
      failed bigint not null, items bigint not null, gas numeric(78,0) not null, wei numeric(78,0) not null,
      primary key (chain_id, bucket, purpose))`,
    `alter table payments add column settled_at_ms bigint`,
    `insert into rollup_recurring select r.chain_id, o.owner, r.token, p.interval_sec, r.bucket, sum(r.count), sum(r.amount)
      from rollup_plans r join plans p on p.chain_id = r.chain_id and p.plan_id = r.plan_id
      cross join lateral (values (''), (p.provider)) o (owner) where r.scheme in ${PERIODS} group by 1, 2, 3, 4, 5`,
    `insert into rollup_causes select e.chain_id, o.owner, e.block_time - e.block_time % 86400, e.type,
        left(e.payload->>'reason', 64), count(*)
      from events e cross join lateral (select '' as owner union select e.provider where e.provider is not null) o
      where not e.reverted and e.type in ('subscription.renewal_failed', 'payment.failed') and e.payload->>'reason' is not null
      group by 1, 2, 3, 4, 5`,
    // Final transactions, counted like new ones. The day is that of the money they moved, or of their sending.
    `insert into rollup_costs select t.chain_id, coalesce(i.at, t.stored_at_ms / 1000) / 86400 * 86400, t.purpose,
        count(*), count(*) filter (where t.success is not true), sum(coalesce(i.items, 0)), sum(t.gas_used),
        sum(t.gas_used * t.gas_price_wei)
      from transactions t left join (select chain_id, transaction, min(block_time) as at, count(*) as items from events
        where not reverted and type in ('payment.settled', 'subscription.created', 'subscription.renewed',
          'subscription.resumed', 'subscription.plan_changed', 'allowance.debited') group by 1, 2) i
        on i.chain_id = t.chain_id and i.transaction = t.hash
      where t.is_final and t.status = 'mined' and t.gas_used is not null and t.gas_price_wei is not null group by 1, 2, 3`,
    `create index subscriptions_listed on subscriptions (chain_id, plan_id, created_at desc, id_hash desc)
      where moved_to is null`,
  ],
};
