/**
 * The database's own upkeep of the tables that fill fastest, at a slower pace and with a smaller sample: it comes in the
 * middle of a load, and whoever pays waited for it. The embedded database does none by itself.
 */
import type { Migration } from "./migration";

/** Of 100: how many rows there are is what the planner needs to know, and so 6,000 of them are read instead of 30,000. */
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

/** Milliseconds instead of 2: 16 MB a second are tidied up still, and a payment takes some 4 KB. */
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
