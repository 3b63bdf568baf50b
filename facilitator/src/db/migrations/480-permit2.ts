/**
 * Payments over Permit2: how a payment moves, what an `upto` payer permitted at most, who may settle it, and the permit
 * that approves Permit2. A transaction may be reserved for one key.
 */
import type { Migration } from "./migration";

export const permit2: Migration = {
  id: "480-permit2",
  statements: [
    `alter table payments add column method text not null default 'eip3009'`,
    `alter table payments add column permitted text`,
    `alter table payments add column sender text`,
    `alter table payments add column token_permit text`,
    `alter table transactions add column sender text`,
    `alter table payments alter column method set statistics 20, alter column permitted set statistics 20,
      alter column sender set statistics 20, alter column token_permit set statistics 20`,
    `alter table transactions alter column sender set statistics 20`,
  ],
};
