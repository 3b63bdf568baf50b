/**
 * Adds rollups and indexes for the dashboard's pages: what each provider is paid, and lists that are never fully
 * scanned.
 */
import type { Migration } from "./migration";

export const figures: Migration = {
  id: "402-figures",
  statements: [
    `create table rollup_providers (
      chain_id bigint not null, token text not null, bucket bigint not null, provider text not null,
      count bigint not null, amount numeric(78,0) not null, primary key (chain_id, token, bucket, provider))`,
    `insert into rollup_providers select chain_id, token, bucket, provider, sum(count), sum(amount)
      from rollup_volume where grain = 86400 and provider <> '' group by 1, 2, 3, 4`,
    `create index payments_failed on payments (chain_id, pay_to, accepted_at_ms desc, payment_id desc)
      where state = 'failed'`,
    `create index payments_of_payer on payments (chain_id, pay_to, payer, accepted_at_ms desc, payment_id desc)`,
    `create index subscriptions_standing on subscriptions (chain_id, plan_id, paid_through) include (ending)
      where not cancelled and not paused`,
    `drop index subscriptions_live`,
  ],
};
