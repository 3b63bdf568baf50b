/**
 * Keeps the ends of subscriptions, and counts by day and token the events that figures read one by one before: what began
 * and ended, and payments that failed.
 */
import type { Migration } from "./migration";

const OF_RECORDS = "'subscription.created', 'subscription.resumed', 'subscription.cancelled', 'subscription.expired'";

export const endings: Migration = {
  id: "670-endings",
  // A process of the release before would add no rows.
  isBreaking: true,
  statements: [
    `insert into rollup_totals (chain_id, provider, grain, bucket, kind, token, interval_sec, count, amount)
      select chain_id, owner, 86400, block_time - block_time % 86400, type, payload->>'token', 0, count(*),
        coalesce(sum((payload->>'amount')::numeric) filter (where type = 'payment.failed'), 0)
      from events e cross join lateral (select '' as owner union select coalesce(e.provider, '')) o
      where not reverted and type in (${OF_RECORDS}, 'payment.failed') and payload->>'token' is not null
      group by 1, 2, 4, 5, 6 order by 4, 2, 5`,
    `create table endings (
      chain_id bigint not null,
      seq bigint not null,
      id_hash text not null,
      provider text not null,
      payer text not null,
      token text not null,
      created_at bigint,
      ended_at bigint not null,
      next_at bigint,
      back_at bigint,
      back_block bigint,
      primary key (chain_id, seq))`,
    `insert into endings
      select chain_id, seq, id_hash, provider, payer, token, created_at, ended_at, next_at, back[2], back[3] from (
        select chain_id, seq, type, object_id as id_hash, provider, coalesce(payer, object_id) as payer,
          payload->>'token' as token, block_time as ended_at, lead(block_time) over record as next_at,
          max(block_time) filter (where type = 'subscription.created') over record as created_at,
          min(array[seq, block_time, coalesce(block_number, 0)])
            filter (where type in ('subscription.created', 'subscription.resumed')) over (
            partition by chain_id, provider, coalesce(payer, object_id) order by seq desc
            rows between unbounded preceding and 1 preceding) as back
        from events where provider is not null and not reverted and type in (${OF_RECORDS})
          and payload->>'token' is not null
        window record as (partition by chain_id, object_id, provider order by seq)) e
      where type in ('subscription.cancelled', 'subscription.expired') order by seq`,
    "create index endings_of_a_record on endings (chain_id, id_hash)",
    "create index endings_of_a_payer on endings (chain_id, payer, provider)",
    "create index endings_of_a_provider on endings (chain_id, provider, ended_at) include (token, created_at, next_at, back_at)",
    "create index endings_of_everyone on endings (chain_id, ended_at) include (token, created_at, next_at, back_at)",
    "drop index events_lifecycle",
    `create index events_of_a_record on events (chain_id, object_id, seq) where not reverted and type in (${OF_RECORDS})`,
  ],
};
