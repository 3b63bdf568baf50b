/**
 * Stores hashes and signatures of payments as bytes, which take half of what hex digits do. The payer's index has a hash
 * of the two accounts instead of their addresses. Rewrites both tables, for about a minute per million payments.
 */
import type { Migration } from "./migration";

const asBytes = (table: string, columns: readonly string[]): string =>
  `alter table ${table} ${columns
    .map((column) => `alter column ${column} type bytea using decode(substr(${column}, 3), 'hex')`)
    .join(", ")}`;

export const compactPayments: Migration = {
  id: "530-compact-payments",
  // A process of the previous release writes hex digits into these columns, and does not complete compact events.
  isBreaking: true,
  statements: [
    `drop index payments_finished_of_payer`,
    asBytes("payments", ["resource_hash", "nonce", "signature", "tx_hash", "block_hash"]),
    asBytes("payment_grants", ["payment_id", "grant_id"]),
    `create index payments_finished_of_payer on payments (hashtextextended(pay_to || payer, 0), accepted_at_ms desc)
      where state in ('settled', 'failed')`,
  ],
};
