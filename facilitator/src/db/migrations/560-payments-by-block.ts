/** Indexes settled payments by block: `reconcile --since` reads them in the chain's order. About 10 bytes a payment. */
import type { Migration } from "./migration";

export const paymentsByBlock: Migration = {
  id: "560-payments-by-block",
  statements: [`create index payments_block on payments (chain_id, block_number) where state = 'settled'`],
};
