/** Adds reports on the lanes for processes without keys, and a row that each process writes to probe the database. */
import type { Migration } from "./migration";

export const health: Migration = {
  id: "414-health",
  statements: [
    `create table lane_reports (
      chain_id bigint not null, key text not null, at_ms bigint not null, balance_wei numeric(78,0),
      is_balance_low boolean not null, obstacle text, in_flight bigint not null, queued bigint not null,
      oldest_pending_sec bigint not null, primary key (chain_id, key))`,
    `create table database_probes (chain_id bigint primary key, at_ms bigint not null)`,
  ],
};
