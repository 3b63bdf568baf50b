/**
 * Chooses the listings that are checked next. What is shown, what was never checked and what failed have slots of their
 * own, so that silent hosts of one kind delay no other. Wallets are free, and plans and payments are not: providers that
 * have some do not wait for those that have none.
 */
import { sql } from "kysely";
import type { Db } from "../db/open";
import { textList } from "../db/sql";
import type { ListingRow } from "./listings";

/** Checks at once, by what is checked. `known`: the first check for a provider with plans or payments. */
const SLOTS = { sound: 8, known: 8, first: 16, again: 8 } as const;

export type Kind = keyof typeof SLOTS;

/** Checks of one provider at once. One host is asked once at a time. */
const PER_PROVIDER = 2;

export interface ClaimedListing {
  readonly row: ListingRow;
  readonly kind: Kind;
}

export interface DueListings {
  readonly chainId: number;
  readonly nowMs: number;
  /** A claimed listing is not due again for this long. */
  readonly claimMs: number;
  readonly busy: readonly ClaimedListing[];
}

/** Takes what is due and moves its time: another process, or a repeated request, sees that it is being checked. */
export async function claimDue(db: Db, { chainId, nowMs, claimMs, busy }: DueListings): Promise<ClaimedListing[]> {
  const used = (kind: Kind): number => busy.filter((one) => one.kind === kind).length;
  const free = Object.entries(SLOTS).map(([kind, slots]) => ({ kind, slots: slots - used(kind as Kind) }));
  const hosts = busy.map(({ row }) => row.host);
  const providers = busy.map(({ row }) => row.provider);
  // Of one host, each provider's first is taken before the second of any: strangers can list it too.
  const { rows } = await sql<{ id: string; kind: Kind }>`
    with due as (
      select l.id, l.provider, l.host, l.due_at_ms, l.seq, case when l.state = 'listed' then 'sound'
        when l.checked_at_ms is not null then 'again'
        when exists (select from plans p where p.chain_id = l.chain_id and p.provider = l.provider)
          or exists (select from rollup_payers r where r.chain_id = l.chain_id and r.provider = l.provider) then 'known'
        else 'first' end as kind
      from listings l where l.chain_id = ${chainId}::bigint and l.due_at_ms <= ${nowMs}::bigint
        and not l.host = any(${textList(hosts)})),
    numbered as (
      select *, row_number() over (partition by provider, kind order by due_at_ms, seq) as of_provider from due),
    of_hosts as (
      select *, row_number() over (partition by host
        order by kind not in ('sound', 'known'), of_provider, due_at_ms, seq) as of_host from numbered),
    fair as (
      select *, row_number() over (partition by provider order by due_at_ms, seq)
        + (select count(*) from unnest(${textList(providers)}) as b(provider) where b.provider = of_hosts.provider) as at_once
      from of_hosts where of_host = 1),
    placed as (
      select *, row_number() over (partition by kind order by at_once, due_at_ms, seq) as place
      from fair where at_once <= ${PER_PROVIDER})
    select placed.id, placed.kind from placed
    join json_to_recordset(${JSON.stringify(free)}::json) as f(kind text, slots int) on f.kind = placed.kind
    where placed.place <= f.slots`.execute(db);
  if (rows.length === 0) return [];
  const kinds = new Map(rows.map(({ id, kind }) => [id, kind]));
  const claimed = await db
    .updateTable("listings")
    .set({ due_at_ms: nowMs + claimMs })
    .where("id", "in", [...kinds.keys()])
    .where("due_at_ms", "<=", nowMs)
    .returningAll()
    .execute();
  return claimed.map((row) => ({ row, kind: kinds.get(row.id) as Kind }));
}
