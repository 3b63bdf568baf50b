/**
 * Slows autovacuum of the fastest-growing tables, and reduces their statistics sample: it runs under load, and delays
 * payments. The embedded database runs no autovacuum.
 */
import type { Migration } from "./migration";

/**
 * Statistics target; the default is 100. The planner mainly needs the row count, so it samples 6,000 rows instead of
 * 30,000.
 */
const DETAIL = 20;

const COLUMNS = {
  payments: `chain_id, payment_id, door, resource_hash, resource_shown, token, payer, pay_to, amount, nonce, valid_after,
    valid_before, signature, has_code, state, fail_code, fail_reason, is_reversed, attempts, accepted_at_ms, accepted_block,
    transaction_id, tx_hash, block_number, block_hash, block_time, log_index, settled_at_ms`,
  events: `seq, id, chain_id, type, object_id, sequence, provider, payer, payload, block_number, block_hash, log_index,
    block_time, transaction, reverted`,
  transactions: `seq, id, chain_id, purpose, idempotency_key, to_address, data, gas_limit, status, created_at_ms, key, nonce,
    epoch, stored_at_ms, hash, block_number, block_hash, success, gas_used, gas_price_wei, is_final`,
  transaction_hashes: "hash, chain_id, transaction_id, raw, max_fee_wei, priority_fee_wei, signed_at_ms",
};

/** 5 ms instead of 2 ms: still vacuums 16 MB per second, and a payment takes about 4 KB. */
const SLOWLY = "autovacuum_vacuum_cost_delay = 5";

export const steadyUpkeep: Migration = {
  id: "409-steady-upkeep",
  statements: [
    ...["payments", "events", "rollup_payers"].map((table) => `alter table ${table} set (${SLOWLY})`),
    ...["transactions", "transaction_hashes", "staged_events"].map(
      (table) => `alter table ${table} set (${SLOWLY}, toast.${SLOWLY})`,
    ),
    ...Object.entries(COLUMNS).map(([table, columns]) => {
      const each = columns.split(/,\s*/).map((column) => `alter column ${column} set statistics ${DETAIL}`);
      return `alter table ${table} ${each.join(", ")}`;
    }),
  ],
};
