/** Stores which refunds were accepted, and what they refund: one row per refund, never pruned. */
import type { Migration } from "./migration";

export const refunds: Migration = {
  id: "470-refunds",
  // A process of the release before would settle a refund as a payment, and report it as one.
  isBreaking: true,
  statements: [
    `create table refunded (
      chain_id bigint not null, refunded_id text not null, kind text not null, provider text not null,
      payer text not null, token text not null, amount numeric(78,0) not null, primary key (chain_id, refunded_id))`,
    `create table refunds (
      chain_id bigint not null, refunded_id text not null, refund_index bigint not null, payment_id text not null,
      primary key (chain_id, refunded_id, refund_index), unique (chain_id, payment_id))`,
  ],
};
