/**
 * Stores the memo of payments. Indexes what moved a provider's money by the time of its block, and what a provider looks
 * for: memos, transactions, names of plans. Keys are hashes where a column is long.
 */
import type { Migration } from "./migration";

/** Events of subscriptions that move money. */
const CHARGES = `type in ('subscription.created', 'subscription.renewed', 'subscription.resumed',
  'subscription.plan_changed', 'allowance.debited')`;

/** The name in a plan's metadata, which is text of the provider's choice; null where it has none. */
const PLAN_NAME = `lower(left(substring(left(metadata, 2048) from '"name"\\s*:\\s*"((?:[^"\\\\]|\\\\.)*)"'), 80))`;

export const ledger: Migration = {
  id: "660-ledger",
  statements: [
    `alter table payments add column memo text`,
    `alter table payments alter column memo set statistics 20`,
    `create index payments_moved on payments (chain_id, pay_to, block_time)
      where state = 'settled' and door <> 'refund'`,
    `create index payments_refunded on payments (chain_id, block_time) where state = 'settled' and door = 'refund'`,
    `create index payments_transaction on payments (tx_hash) where tx_hash is not null`,
    `create index payments_memo on payments (hashtextextended(memo, 0)) where memo is not null`,
    `create index events_moved on events (chain_id, provider, block_time) where not reverted and ${CHARGES}`,
    `create index events_transaction on events (transaction) where ${CHARGES}`,
    `create index plans_named on plans (chain_id, provider, ${PLAN_NAME} text_pattern_ops)`,
  ],
};
