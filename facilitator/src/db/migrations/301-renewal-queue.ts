/**
 * Separates renewals that are not due yet from those that are ready to be collected, each with its own index. The cost
 * of a claim then depends on neither the waiting nor the already claimed ones. A leased row waits for the end of its
 * lease.
 */
import type { Migration } from "./migration";

export const renewalQueue: Migration = {
  id: "301-renewal-queue",
  statements: [
    `alter table renewal_due add column is_ready boolean not null default false`,
    `alter table renewal_due add column provider text`,
    `alter table renewal_due add column grace_ends_at bigint`,
    `create index renewal_due_waiting on renewal_due (chain_id, due_at, id_hash) where not is_ready`,
    `create index renewal_due_ready on renewal_due (chain_id, provider, grace_ends_at, id_hash) where is_ready`,
    `drop index renewal_due_at`,
  ],
};
