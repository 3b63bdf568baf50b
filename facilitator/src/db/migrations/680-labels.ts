/** Stores what a provider calls its payers and plans. A provider has at most 1,000: searches read all of its own. */
import type { Migration } from "./migration";

export const labels: Migration = {
  id: "680-labels",
  statements: [
    `create table labels (chain_id bigint not null, provider text not null, object text not null, text text not null,
      primary key (chain_id, provider, object))`,
  ],
};
