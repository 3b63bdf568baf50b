/** Finds whom a payer has paid, so that its own payments are read by the index of each pair. */
import type { Migration } from "./migration";

export const payerCharges: Migration = {
  id: "650-payer-charges",
  statements: [`create index rollup_payers_of_payer on rollup_payers (payer)`],
};
