/**
 * Sums of the transactions that retention deletes, so that `reconcile` can still compare the costs. Indexes of a
 * provider's payments without the payment's id, which took a third of their size.
 */
import type { Migration } from "./migration";

export const retention: Migration = {
  id: "520-retention",
  statements: [
    `create table pruned_costs (
      chain_id bigint not null, purpose text not null, transactions bigint not null, failed bigint not null,
      items bigint not null, gas numeric(78,0) not null, wei numeric(78,0) not null, primary key (chain_id, purpose))`,
    `create index transactions_stored on transactions (chain_id, stored_at_ms)`,
    `create index payments_finished on payments (chain_id, pay_to, accepted_at_ms desc)
      where state in ('settled', 'failed')`,
    `create index payments_finished_of_payer on payments (chain_id, pay_to, payer, accepted_at_ms desc)
      where state in ('settled', 'failed')`,
    `drop index payments_done`,
    `drop index payments_done_of_payer`,
  ],
};
