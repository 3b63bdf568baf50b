/** Stores the last hour's payments that cost gas and moved nothing, for all processes that accept payments. */
import type { Migration } from "./migration";

export const failedSpends: Migration = {
  id: "430-failed-spends",
  statements: [
    `create table failed_spends (chain_id bigint not null, at_ms bigint not null, payer text not null, pay_to text not null)`,
    `create index failed_spends_at on failed_spends (chain_id, at_ms)`,
  ],
};
