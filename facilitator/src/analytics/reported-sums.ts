import { sql } from "kysely";
import { OTHER_RESOURCES, type ReportEntry } from "turnpike/facilitator";
import type { Db, Tx } from "../db/open";
import { bucketOf, EVERYONE, SPANS } from "./rollups";

/**
 * Maximum routes of a provider that are counted separately: a path with an id would be a new route at every request.
 */
export const MAX_RESOURCES = 200;

export const ALL_RESOURCES = "";

/** @returns those of `wanted` that are counted separately */
export async function knownResources(
  tx: Tx,
  owner: { readonly chainId: number; readonly provider: string },
  wanted: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const { chainId, provider } = owner;
  const rows = await tx
    .selectFrom("gate_resources")
    .select("resource")
    .where("chain_id", "=", chainId)
    .where("provider", "=", provider)
    .execute();
  const known = new Set(rows.map(({ resource }) => resource));
  const unknown = [...wanted].filter((resource) => !known.has(resource));
  const fresh = unknown.slice(0, Math.max(0, MAX_RESOURCES - known.size));
  // All other routes are counted under one common name, which is stored as well.
  if (unknown.length > fresh.length && !known.has(OTHER_RESOURCES)) fresh.push(OTHER_RESOURCES);
  if (fresh.length > 0) {
    await tx
      .insertInto("gate_resources")
      .values(fresh.map((resource) => ({ chain_id: chainId, provider, resource })))
      .onConflict((conflict) => conflict.doNothing())
      .execute();
  }
  return new Set([...known, ...fresh]);
}

/**
 * Adds by day, week and four weeks; by route and for all routes; by provider and for all providers. Rows are written in
 * one order, so that two writers do not deadlock.
 */
export async function addReported(
  db: Db,
  { chainId, provider }: { readonly chainId: number; readonly provider: string },
  entries: readonly ReportEntry[],
): Promise<void> {
  const sums = new Map<string, { row: string[]; count: number; amount: bigint }>();
  for (const { hour, resource, token = "", step, cause = "", offer = "", count, amount } of entries) {
    for (const [owner, place] of [
      [EVERYONE, ALL_RESOURCES],
      [provider, ALL_RESOURCES],
      [provider, resource],
    ] as const) {
      for (const grain of SPANS) {
        const row = [owner, String(grain), String(bucketOf(hour, grain)), place, token, step, cause, offer];
        const key = row.join("|");
        const sum = sums.get(key) ?? { row, count: 0, amount: 0n };
        sums.set(key, { row, count: sum.count + count, amount: sum.amount + amount });
      }
    }
  }
  const rows = [...sums]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, { row, count, amount }]) => [...row, String(count), amount.toString()]);
  await sql`insert into rollup_funnel as r (chain_id, provider, grain, bucket, resource, token, step, cause, offer, count, amount)
    select ${chainId}::bigint, x->>0, (x->>1)::int, (x->>2)::bigint, x->>3, x->>4, x->>5, x->>6, x->>7, (x->>8)::bigint,
      (x->>9)::numeric
    from jsonb_array_elements(${JSON.stringify(rows)}::jsonb) x
    on conflict (chain_id, provider, grain, resource, bucket, token, step, cause, offer)
    do update set count = r.count + excluded.count, amount = r.amount + excluded.amount`.execute(db);
}

/** Uses the name under which the route is counted. */
export const countedAs = (resource: string, known: ReadonlySet<string>): string =>
  known.has(resource) ? resource : OTHER_RESOURCES;
