/**
 * Adds longer spans to the daily rollups, for queries over a year. Replaces indexes by ones that a payment enters once,
 * when it is settled or failed.
 */
import type { Migration } from "./migration";

const SPANS = "(values (86400), (604800), (2419200)) g (grain)";

export const spans: Migration = {
  id: "403-spans",
  statements: [
    // Replaces rollup_plans, which is no longer used. Its key starts with the provider, so that a provider's plans are
    // adjacent.
    `create table rollup_provider_plans (
      chain_id bigint not null, provider text not null, grain int not null, bucket bigint not null, plan_id text not null,
      scheme text not null, count bigint not null, amount numeric(78,0) not null,
      primary key (chain_id, provider, grain, bucket, plan_id, scheme))`,
    `insert into rollup_provider_plans
      select r.chain_id, p.provider, g.grain, r.bucket - r.bucket % g.grain, r.plan_id, r.scheme, sum(r.count), sum(r.amount)
      from rollup_plans r join plans p on p.chain_id = r.chain_id and p.plan_id = r.plan_id and p.token = r.token
      cross join ${SPANS} group by 1, 2, 3, 4, 5, 6`,
    `insert into rollup_funnel
      select chain_id, provider, g.grain, bucket - bucket % g.grain, resource, token, step, cause, offer, sum(count), sum(amount)
      from rollup_funnel r cross join (values (604800), (2419200)) g (grain) where r.grain = 86400
      group by 1, 2, 3, 4, 5, 6, 7, 8, 9`,
    `create index payments_done on payments (chain_id, pay_to, accepted_at_ms desc, payment_id desc)
      where state in ('settled', 'failed')`,
    `create index payments_done_of_payer on payments (chain_id, pay_to, payer, accepted_at_ms desc, payment_id desc)
      where state in ('settled', 'failed')`,
    `drop index payments_listed`,
    `drop index payments_of_payer`,
    `create index subscriptions_of_subscriber on subscriptions (chain_id, subscriber, plan_id, created_at desc, id_hash desc)
      include (moved_to)`,
    `drop index subscriptions_subscriber`,
  ],
};
