/** Deletes finished deliveries that are too old, with their attempts. Pending ones are kept however old they are. */
import { sql } from "kysely";
import type { Store, Tx } from "../db/open";
import { onChains } from "../db/owner";
import { idList } from "../db/sql";

/** Deliveries of one endpoint in one transaction. */
const AT_ONCE = 500;

/**
 * Deletes a batch of deliveries that finished before `beforeMs`, of one endpoint, oldest first.
 * @returns the number deleted; 0 when none is left
 */
export async function deleteOldDeliveries(store: Store, chainId: number, beforeMs: number): Promise<number> {
  const endpoints = await store.db
    .selectFrom("webhook_endpoints")
    .select("id")
    .where(onChains("webhook_endpoints", [chainId]))
    .orderBy("id")
    .execute();
  for (const { id } of endpoints) {
    const deleted = await store.transaction((tx) => deleteOfEndpoint(tx, id, beforeMs));
    if (deleted > 0) return deleted;
  }
  return 0;
}

interface OldDelivery {
  readonly event_id: string;
  readonly seq: number;
}

/** Returns the oldest finished deliveries. Stops reading at one that was created later: so were those after it. */
async function oldest(tx: Tx, endpointId: string, beforeMs: number): Promise<OldDelivery[]> {
  for (let after = 0; ; ) {
    const page = await tx
      .selectFrom("webhook_deliveries")
      .select(["event_id", "seq", "state", "created_at_ms", "finished_at_ms"])
      .where("endpoint_id", "=", endpointId)
      .where("seq", ">", after)
      .orderBy("seq")
      .limit(AT_ONCE)
      .execute();
    const old = page.filter(
      ({ state, finished_at_ms: finishedMs }) => state !== "pending" && finishedMs !== null && finishedMs < beforeMs,
    );
    const last = page.at(-1);
    if (old.length > 0 || !last || page.length < AT_ONCE || last.created_at_ms >= beforeMs) return old;
    after = last.seq;
  }
}

async function deleteOfEndpoint(tx: Tx, endpointId: string, beforeMs: number): Promise<number> {
  // Locks the endpoint before its deliveries, as everywhere.
  await sql`select id from webhook_endpoints where id = ${endpointId} for no key update`.execute(tx);
  const ids = idList((await oldest(tx, endpointId, beforeMs)).map((row) => row.event_id));
  // Deleted deliveries are no longer expected.
  await sql`update webhook_endpoints w set queued_after = newest.seq
    from (select max(e.seq) as seq from webhook_deliveries d join events e on e.chain_id = d.chain_id and e.id = d.event_id
      where d.endpoint_id = ${endpointId} and d.event_id = any(${ids})) newest
    where w.id = ${endpointId} and w.queued_after < newest.seq`.execute(tx);
  const { numAffectedRows } = await sql`delete from webhook_deliveries
    where endpoint_id = ${endpointId} and event_id = any(${ids})`.execute(tx);
  return Number(numAffectedRows ?? 0);
}

/** Returns those of the events that an endpoint has a delivery of: it may be sent, or listed, and needs the event. */
export async function eventsDelivered(
  tx: Tx,
  chainId: number,
  events: readonly { readonly id: string; readonly provider: string }[],
): Promise<readonly string[]> {
  const ids = idList(events.map(({ id }) => id));
  const providers = idList(new Set(events.map(({ provider }) => provider)));
  const { rows } = await sql<{ id: string }>`
    select d.event_id as id from webhook_endpoints w
      cross join lateral (select event_id from webhook_deliveries
        where endpoint_id = w.id and event_id = any(${ids})) d
    where ${onChains("w", [chainId])} and w.provider = any(${providers})`.execute(tx);
  return rows.map(({ id }) => id);
}
