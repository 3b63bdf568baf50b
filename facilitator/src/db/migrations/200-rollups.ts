/** Adds rollups for charts, filled from the valid events. */
import type { Migration } from "./migration";

const SUM = "count bigint not null, amount numeric(78,0) not null";

/** Existing events, counted as the service counts new ones: once for the provider and once for all providers. */
const COUNTED = `select e.chain_id, o.provider, e.type, e.block_time, e.payload, e.payer
  from events e cross join lateral (select '' as provider union select e.provider where e.provider is not null) o
  where not e.reverted`;

const MONEY = `select chain_id, provider, block_time, payer, payload->>'token' as token,
    coalesce(payload->>'planId', '') as plan_id,
    case type when 'payment.settled' then 'one-time' when 'subscription.created' then 'signup'
      when 'subscription.renewed' then 'renewal' when 'subscription.resumed' then 'resume'
      when 'subscription.plan_changed' then 'plan-change' else 'overage' end as scheme,
    (case when type in ('payment.settled', 'allowance.debited') then payload->>'amount' else payload->>'charged' end)::numeric as amount
  from (${COUNTED}) c
  where type in ('payment.settled', 'subscription.created', 'subscription.renewed', 'subscription.resumed',
    'subscription.plan_changed', 'allowance.debited')`;

const MOVED = `(select * from (${MONEY}) m where amount > 0 and token is not null) moved`;

export const rollups: Migration = {
  id: "200-rollups",
  statements: [
    `create table rollup_volume (
      chain_id bigint not null, provider text not null, grain int not null, bucket bigint not null, token text not null,
      scheme text not null, ${SUM}, primary key (chain_id, provider, grain, bucket, token, scheme))`,
    `create table rollup_plans (
      chain_id bigint not null, plan_id text not null, bucket bigint not null, token text not null, scheme text not null,
      ${SUM}, primary key (chain_id, plan_id, bucket, token, scheme))`,
    `create table rollup_payers (
      chain_id bigint not null, provider text not null, token text not null, payer text not null,
      ${SUM}, primary key (chain_id, provider, token, payer))`,
    `create index rollup_payers_top on rollup_payers (chain_id, provider, token, amount desc)`,
    `create table rollup_events (
      chain_id bigint not null, provider text not null, grain int not null, bucket bigint not null, type text not null,
      count bigint not null, primary key (chain_id, provider, grain, bucket, type))`,
    `insert into rollup_volume select chain_id, provider, grain, block_time - block_time % grain, token, scheme,
      count(*), sum(amount) from ${MOVED} cross join (values (3600), (86400)) g (grain) group by 1, 2, 3, 4, 5, 6`,
    `insert into rollup_plans select chain_id, plan_id, block_time - block_time % 86400, token, scheme, count(*), sum(amount)
      from ${MOVED} where provider = '' and plan_id <> '' group by 1, 2, 3, 4, 5`,
    `insert into rollup_payers select chain_id, provider, token, payer, count(*), sum(amount)
      from ${MOVED} where provider <> '' and payer is not null group by 1, 2, 3, 4`,
    `insert into rollup_events select chain_id, provider, grain, block_time - block_time % grain, type, count(*)
      from (${COUNTED}) c cross join (values (3600), (86400)) g (grain) group by 1, 2, 3, 4, 5`,
    `create index payments_listed on payments (chain_id, pay_to, accepted_at_ms desc, payment_id desc)`,
    // No query uses it, and every payment pays for it.
    `drop index payments_payee`,
    `create index subscriptions_live on subscriptions (chain_id, plan_id, paid_through)
      where not cancelled and not paused`,
  ],
};
