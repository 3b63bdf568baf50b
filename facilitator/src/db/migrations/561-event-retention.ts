/**
 * What stays of the events that retention deletes: their sums, so that `reconcile` can still compare the charts, and how
 * far each feed is deleted. The files that deleted rows are archived in.
 */
import type { Migration } from "./migration";

const AMOUNT = "numeric(78,0) not null";

export const eventRetention: Migration = {
  id: "561-event-retention",
  statements: [
    `create table pruned_feeds (
      chain_id bigint not null, provider text not null, type text not null, through_seq bigint not null,
      primary key (chain_id, provider, type))`,
    `create table pruned_sums (
      chain_id bigint not null, provider text not null, grain int not null, bucket bigint not null,
      counted text not null, token text not null, count bigint not null, amount ${AMOUNT},
      primary key (chain_id, grain, bucket, counted, token, provider))`,
    `create table pruned_payers (
      chain_id bigint not null, provider text not null, token text not null, payer text not null,
      count bigint not null, amount ${AMOUNT}, primary key (chain_id, provider, token, payer))`,
    `create table archive_files (
      chain_id bigint not null, kind text not null, first_seq bigint not null, last_seq bigint not null,
      name text not null, rows bigint not null, bytes bigint not null, sha256 text not null,
      created_at_ms bigint not null, primary key (chain_id, kind, last_seq))`,
  ],
};
