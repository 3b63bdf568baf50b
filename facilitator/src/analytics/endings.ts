/**
 * Keeps a row for each end of a subscription, and when its subscriber came back. How many ended for good in a range is
 * counted from these rows: their events are many more, and no sum of days says it.
 */
import { type RawBuilder, sql } from "kysely";
import type { Db, Tx } from "../db/open";
import { idList, literals, textList } from "../db/sql";
import type { CountedRow, EventProjection } from "../events/projection";
import type { Range, Scope } from "./ranges";

const BEGINS = ["subscription.created", "subscription.resumed"];

const ENDS = ["subscription.cancelled", "subscription.expired"];

const COLUMNS = sql.raw(
  "chain_id, seq, id_hash, provider, payer, token, created_at, ended_at, next_at, back_at, back_block",
);

/** Derives the rows from the events. @param idHashes restricts the result to these, and who came back to them */
export function endingsDerived(chainId: number, idHashes?: readonly string[]): RawBuilder<unknown> {
  const those = idHashes ? sql`and object_id = any(${idList(idHashes)})` : sql``;
  return sql`
    select chain_id, seq, id_hash, provider, payer, token, created_at, ended_at, next_at, back[2] as back_at, back[3] as back_block
    from (
      select chain_id, seq, type, object_id as id_hash, provider, coalesce(payer, object_id) as payer,
        payload->>'token' as token, block_time as ended_at, lead(block_time) over record as next_at,
        max(block_time) filter (where type = 'subscription.created') over record as created_at,
        min(array[seq, block_time, coalesce(block_number, 0)]) filter (where type in (${literals(BEGINS)})) over (
          partition by provider, coalesce(payer, object_id) order by seq desc
          rows between unbounded preceding and 1 preceding) as back
      from events where chain_id = ${chainId}::bigint and provider is not null and not reverted
        and type in (${literals([...BEGINS, ...ENDS])}) and payload->>'token' is not null ${those}
      window record as (partition by object_id, provider order by seq)) e
    where type in (${literals(ENDS)})`;
}

/** Derives the rows of the subscriptions of these events, and whether their subscribers came back by them. */
export const endings: EventProjection = {
  async appended(tx, chainId, events) {
    await derive(tx, chainId, events);
    const begun = events.filter(({ type }) => BEGINS.includes(type)).map((event) => event.object_id);
    if (begun.length === 0) return;
    await sql`update endings e set back_at = b.back[2], back_block = b.back[3] from (
        select o.seq, min(array[n.seq, n.block_time, coalesce(n.block_number, 0)]) as back
        from events n join endings o on o.chain_id = n.chain_id and o.provider = n.provider
          and o.payer = coalesce(n.payer, n.object_id) and o.seq < n.seq and o.back_at is null
        where n.chain_id = ${chainId}::bigint and n.object_id = any(${idList(begun)})
          and n.type in (${literals(BEGINS)}) and not n.reverted group by o.seq) b
      where e.chain_id = ${chainId}::bigint and e.seq = b.seq`.execute(tx);
  },
  async reverted(tx, chainId, events) {
    await derive(tx, chainId, events);
    const begun = events.filter(({ type }) => BEGINS.includes(type));
    if (begun.length === 0) return;
    // What followed is in no earlier block: the newest block is reverted first.
    await sql`update endings set back_at = null, back_block = null where chain_id = ${chainId}::bigint
      and payer = any(${textList(begun.map((event) => event.payer ?? event.object_id))})
      and back_block = ${begun[0]?.block_number ?? null}::bigint`.execute(tx);
  },
  async revived(tx, chainId, events) {
    await endings.appended?.(tx, chainId, events);
    return [];
  },
};

/** Writes only the rows that differ. Those of other subscriptions say whether the subscriber came back. */
async function derive(tx: Tx, chainId: number, events: readonly CountedRow[]): Promise<void> {
  const own = events.filter(({ type }) => BEGINS.includes(type) || ENDS.includes(type));
  if (own.length === 0) return;
  const idHashes = [...new Set(own.map((event) => event.object_id))];
  await sql`
    with derived as materialized (${endingsDerived(chainId, idHashes)}),
    removed as (delete from endings e where e.chain_id = ${chainId}::bigint and e.id_hash = any(${idList(idHashes)})
      and not exists (select 1 from derived d where d.seq = e.seq))
    insert into endings as e (${COLUMNS}) select ${COLUMNS} from derived
    on conflict (chain_id, seq) do update set created_at = excluded.created_at, next_at = excluded.next_at
    where (e.created_at, e.next_at) is distinct from (excluded.created_at, excluded.next_at)`.execute(tx);
}

export async function recountEndings(tx: Tx, chainId: number): Promise<void> {
  await tx.deleteFrom("endings").where("chain_id", "=", chainId).execute();
  await sql`insert into endings (${COLUMNS}) select ${COLUMNS} from (${endingsDerived(chainId)}) d order by seq`.execute(
    tx,
  );
}

export interface Endings {
  /** subscriptions that were cancelled or expired and did not come back */
  readonly ended: number;
  /** They were active before the range, and their subscriber has no later subscription either. */
  readonly lost: number;
}

export async function endingsIn(db: Db, scope: Scope, { fromSec, toSec }: Range): Promise<Endings> {
  const { chainId, provider, token } = scope;
  const { rows } = await sql<Endings>`
    select count(*)::int8 as ended, (count(*) filter (where (back_at is null or back_at >= ${toSec})
      and (created_at is null or created_at < ${fromSec})))::int8 as lost
    from endings where chain_id = ${chainId} and token = ${token}
      ${provider === undefined ? sql`` : sql`and provider = ${provider}`}
      and ended_at >= ${fromSec} and ended_at < ${toSec} and (next_at is null or next_at >= ${toSec})`.execute(db);
  return rows[0] ?? { ended: 0, lost: 0 };
}
