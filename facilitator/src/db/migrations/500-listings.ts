/** Stores what providers list for discovery, and what the last check of each URL found. */
import type { Migration } from "./migration";

export const listings: Migration = {
  id: "500-listings",
  statements: [
    `create table listings (
      seq bigserial not null, id text primary key, chain_id bigint not null, provider text not null,
      method text not null, url text not null, host text not null, sample jsonb not null, state text not null,
      problem text, terms jsonb, search_text text not null default '', failures int not null default 0,
      created_at_ms bigint not null, checked_at_ms bigint, listed_at_ms bigint, hidden_at_ms bigint,
      due_at_ms bigint not null, unique (chain_id, provider, method, url))`,
    `create index listings_due on listings (chain_id, due_at_ms)`,
    `create index listings_shown on listings (chain_id, seq) where state = 'listed'`,
  ],
};
