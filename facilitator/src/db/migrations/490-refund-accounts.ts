/** Stores which account each provider has named for automatic refunds, and what these refunds took of its daily cap. */
import type { Migration } from "./migration";

export const refundAccounts: Migration = {
  id: "490-refund-accounts",
  statements: [
    `create table refund_accounts (
      chain_id bigint not null, provider text not null, token text not null, account text not null,
      daily_cap numeric(78,0) not null, version bigint not null, expires_at bigint not null, facilitator text not null,
      signature text not null, named_at_ms bigint not null, revoked_at_ms bigint,
      primary key (chain_id, provider, token))`,
    `create table automatic_refunds (
      chain_id bigint not null, refunded_id text not null, provider text not null, token text not null,
      account text not null, amount numeric(78,0) not null, accepted_at_ms bigint not null, naming text,
      primary key (chain_id, refunded_id))`,
    `create index automatic_refunds_of_a_day on automatic_refunds (chain_id, provider, token, accepted_at_ms)`,
  ],
};
