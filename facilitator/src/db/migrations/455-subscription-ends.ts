/**
 * Lists the records whose subscriber set an end, so that reaching it is reported also while nothing falls due. Indexes
 * the plans with another payee that is proposed.
 */
import type { Migration } from "./migration";

export const subscriptionEnds: Migration = {
  id: "455-subscription-ends",
  // The release before adds no row, and the end would not be reported.
  isBreaking: true,
  statements: [
    `create table subscription_ends (
      chain_id bigint not null,
      id_hash text not null,
      ends_at bigint not null,
      primary key (chain_id, id_hash))`,
    `create index subscription_ends_at on subscription_ends (chain_id, ends_at, id_hash)`,
    `insert into subscription_ends (chain_id, id_hash, ends_at)
      select chain_id, id_hash, greatest(paid_through, until) from subscriptions
      where until <> 0 and not ending and not cancelled`,
    `create index plans_proposed on plans (chain_id, pay_to_effective_at) where proposed_pay_to is not null`,
  ],
};
