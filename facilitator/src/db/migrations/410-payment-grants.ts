/** Records to which purchase each x402 payment was granted: one row per payment, never pruned. */
import type { Migration } from "./migration";

export const paymentGrants: Migration = {
  id: "410-payment-grants",
  // A process of the previous release accepts payments without a grant, so their purchase would be unknown.
  isBreaking: true,
  statements: [
    `create table payment_grants (
      chain_id bigint not null, payment_id text not null, grant_id text not null, is_gate boolean not null,
      held_until_ms bigint, granted_at_ms bigint, primary key (chain_id, payment_id))`,
    // Payments of the previous release: a settled one counts as granted; any other is granted to the next request.
    `insert into payment_grants (chain_id, payment_id, grant_id, is_gate, held_until_ms, granted_at_ms)
      select chain_id, payment_id, '0x' || repeat('0', 64), false, 0,
        case when state = 'settled' then coalesce(settled_at_ms, accepted_at_ms) end
      from payments where door = 'settle' on conflict do nothing`,
  ],
};
