/** Finds a provider's payer by the first digits of its address, in whichever case they are written. */
import type { Migration } from "./migration";

export const payersByStart: Migration = {
  id: "690-payers-by-start",
  statements: ["create index rollup_payers_by_start on rollup_payers (chain_id, provider, lower(payer))"],
};
