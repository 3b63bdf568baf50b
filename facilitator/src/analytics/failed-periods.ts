import { type RawBuilder, sql } from "kysely";
import type { Tx } from "../db/open";
import { idList } from "../db/sql";
import type { FailedPeriodsTable } from "../db/tables/analytics";
import type { CountedRow, EventProjection } from "../events/projection";
import type { RecordProjection } from "../subscriptions/rows";

/** No attempt was made before the period became uncollectable. */
const NOT_TRIED = "NotTried";

const COLUMNS = sql.raw("chain_id, id_hash, paid_through, provider, token, failed_at, cause, price, outcome");

const FAILURES: readonly string[] = ["subscription.renewal_failed", "subscription.expired"];

/** Without a log: a record reached the end that its subscriber had set. A period that failed before is lost then. */
const END = "subscription.cancelled";

/** Derives the rows from the events. @param idHashes restricts the result to these */
export function failedPeriodsDerived(chainId: number, idHashes?: readonly string[]): RawBuilder<FailedPeriodsTable> {
  const those = idHashes ? sql`and object_id = any(${idList(idHashes)})` : sql``;
  return sql`
    select f.chain_id, f.id_hash, f.paid_through, f.provider, f.token, f.failed_at, f.cause, f.price,
      case
        when s.id_hash is null then 'gone'
        -- A subscriber who comes back later does not pay for it.
        when f.is_over then 'lost'
        when s.paid_through <> f.paid_through then 'recovered'
        when s.moved_to is not null then 'moved'
        when s.cancelled or s.paused then 'lost'
        else 'open'
      end as outcome
    from (
      select distinct on (id_hash, paid_through) *, bool_or(is_end) over (partition by id_hash, paid_through) as is_over
      from (
        select chain_id, object_id as id_hash, (payload->>'paidThrough')::bigint as paid_through, provider,
          payload->>'token' as token, block_time as failed_at, coalesce(left(payload->>'reason', 64), ${NOT_TRIED}) as cause,
          coalesce(payload->>'charge', payload->>'price')::numeric as price,
          type <> 'subscription.renewal_failed' as is_end, type, seq
        from events where chain_id = ${chainId}::bigint and not reverted and (type in (${sql.join([...FAILURES])})
            or type = ${END} and log_index is null)
          and payload->>'paidThrough' is not null ${those}) failures
      order by id_hash, paid_through, is_end, seq) f
    left join subscriptions s on s.chain_id = f.chain_id and s.id_hash = f.id_hash
    where f.type <> ${END} and f.provider is not null and f.token is not null and f.price is not null`;
}

/**
 * Derives the periods of failures that are published, reverted or valid again. Also derives the outcomes of failed
 * periods whose subscriptions change. Other events need no statement.
 */
export const failedPeriods: EventProjection & RecordProjection = {
  appended: deriveOf,
  reverted: deriveOf,
  async revived(tx, chainId, events) {
    await deriveOf(tx, chainId, events);
    return [];
  },
  async around(tx, chainId, idHashes, change) {
    await change();
    await updateOutcomes(tx, chainId, idHashes);
  },
};

async function deriveOf(tx: Tx, chainId: number, events: readonly CountedRow[]): Promise<void> {
  const failed = events.filter(({ type }) => type === END || FAILURES.includes(type));
  await derive(tx, chainId, [...new Set(failed.map((event) => event.object_id))]);
}

/** Derives only subscriptions that have failed before: most never do. */
async function updateOutcomes(tx: Tx, chainId: number, idHashes: readonly string[]): Promise<void> {
  if (idHashes.length === 0) return;
  const failed = await tx
    .selectFrom("failed_periods")
    .select("id_hash")
    .distinct()
    .where("chain_id", "=", chainId)
    .where(sql<boolean>`id_hash = any(${idList(idHashes)})`)
    .execute();
  await derive(
    tx,
    chainId,
    failed.map((row) => row.id_hash),
  );
}

export async function recountFailedPeriods(tx: Tx, chainId: number): Promise<void> {
  await tx.deleteFrom("failed_periods").where("chain_id", "=", chainId).execute();
  await sql`insert into failed_periods (${COLUMNS})
    select ${COLUMNS} from (${failedPeriodsDerived(chainId)}) d order by provider, failed_at`.execute(tx);
}

/** Writes only the rows that differ. */
async function derive(tx: Tx, chainId: number, idHashes: readonly string[]): Promise<void> {
  if (idHashes.length === 0) return;
  await sql`
    with derived as materialized (${failedPeriodsDerived(chainId, idHashes)}),
    removed as (
      delete from failed_periods f where f.chain_id = ${chainId}::bigint and f.id_hash = any(${idList(idHashes)})
        and not exists (select 1 from derived d where d.id_hash = f.id_hash and d.paid_through = f.paid_through))
    insert into failed_periods as f (${COLUMNS}) select ${COLUMNS} from derived
    on conflict (chain_id, id_hash, paid_through) do update set provider = excluded.provider, token = excluded.token,
      failed_at = excluded.failed_at, cause = excluded.cause, price = excluded.price, outcome = excluded.outcome
    where (f.provider, f.token, f.failed_at, f.cause, f.price, f.outcome) is distinct from
      (excluded.provider, excluded.token, excluded.failed_at, excluded.cause, excluded.price, excluded.outcome)`.execute(
    tx,
  );
}
