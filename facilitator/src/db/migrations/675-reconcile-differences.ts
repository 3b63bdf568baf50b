/** Keeps what the last `reconcile` named, beside the number of its differences. */
import type { Migration } from "./migration";

export const reconcileDifferences: Migration = {
  id: "675-reconcile-differences",
  statements: [
    `create table reconcile_differences (
      chain_id bigint not null,
      place int not null,
      difference text not null,
      primary key (chain_id, place))`,
  ],
};
