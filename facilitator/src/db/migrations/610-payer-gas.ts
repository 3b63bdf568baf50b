/** Indexes the payments that a payer can make dear, by time: what each payer costs within an hour is summed from them. */
import type { Migration } from "./migration";

export const payerGas: Migration = {
  id: "610-payer-gas",
  statements: [
    `create index payments_dear on payments (chain_id, accepted_at_ms) where has_code or method <> 'eip3009'`,
  ],
};
