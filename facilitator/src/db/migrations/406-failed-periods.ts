/** Adds a row for each period that fell due and was not charged, instead of reading the events of every period. */
import type { Migration } from "./migration";

export const failedPeriods: Migration = {
  id: "406-failed-periods",
  statements: [
    `create table failed_periods (
      chain_id bigint not null, id_hash text not null, paid_through bigint not null, provider text not null,
      token text not null, failed_at bigint not null, cause text not null, price numeric(78,0) not null,
      outcome text not null, primary key (chain_id, id_hash, paid_through))`,
    `create index failed_periods_of_a_provider on failed_periods (chain_id, provider, token, failed_at)
      include (cause, outcome, price)`,
    `insert into failed_periods (chain_id, id_hash, paid_through, provider, token, failed_at, cause, price, outcome)
      with told as (
        select chain_id, object_id as id_hash, (payload->>'paidThrough')::bigint as paid_through, provider,
          payload->>'token' as token, block_time as failed_at, coalesce(left(payload->>'reason', 64), 'NotTried') as cause,
          (payload->>'price')::numeric as price, type = 'subscription.expired' as is_end, seq
        from events where not reverted and type in ('subscription.renewal_failed', 'subscription.expired')
          and payload->>'paidThrough' is not null),
      first as (
        select distinct on (chain_id, id_hash, paid_through) *,
          bool_or(is_end) over (partition by chain_id, id_hash, paid_through) as is_over
        from told order by chain_id, id_hash, paid_through, is_end, seq)
      select f.chain_id, f.id_hash, f.paid_through, f.provider, f.token, f.failed_at, f.cause, f.price,
        case when s.id_hash is null then 'gone' when f.is_over then 'lost'
          when s.paid_through <> f.paid_through then 'recovered' when s.moved_to is not null then 'moved'
          when s.cancelled or s.paused then 'lost' else 'open' end
      from first f left join subscriptions s on s.chain_id = f.chain_id and s.id_hash = f.id_hash
      where f.provider is not null and f.token is not null and f.price is not null
      order by f.provider, f.failed_at`,
  ],
};
