/** Records which purchases have payers' money reserved between `/verify` and `/settle`. */
import type { Migration } from "./migration";

export const paymentReservations: Migration = {
  id: "460-payment-reservations",
  // A process of the previous release would accept payments against money that is reserved.
  isBreaking: true,
  statements: [
    `create table payment_reservations (
      chain_id bigint not null, payment_id text not null, grant_id text not null, payer text not null,
      token text not null, pay_to text not null, amount numeric(78,0) not null, resource_hash text not null,
      expires_at bigint not null, primary key (chain_id, payment_id))`,
    `create index payment_reservations_payer on payment_reservations (chain_id, token, payer)`,
    `create index payment_reservations_expired on payment_reservations (chain_id, expires_at)`,
  ],
};
