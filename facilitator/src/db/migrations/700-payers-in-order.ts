/** Orders a provider's payers by each of their totals. Cursors are positions in these indexes. */
import type { Migration } from "./migration";

const FIGURES = { amount: "amount", refunded: "refunded", net: "(amount - refunded)", count: "count" };

export const payersInOrder: Migration = {
  id: "700-payers-in-order",
  statements: [
    ...Object.entries(FIGURES).map(
      ([name, figure]) =>
        `create index rollup_payers_by_${name} on rollup_payers (chain_id, provider, token, ${figure}, payer)`,
    ),
    "drop index rollup_payers_top",
  ],
};
