/** Ends deliveries by the age of their events: a receiver that hangs leaves no time for all of its attempts. */
import { sql } from "kysely";
import type { Db } from "../db/open";

/**
 * Gives up what a failing endpoint has left too old. An endpoint that answers gets everything, however late it is sent.
 * @returns how many
 */
export async function giveUpOld(
  db: Db,
  chainId: number,
  { nowMs, ageMs }: { readonly nowMs: number; readonly ageMs: number },
): Promise<number> {
  // Skips rows whose outcome is being written: waiting could deadlock with an endpoint that is being disabled.
  const { numAffectedRows } = await sql`
    with old as (
      select d.endpoint_id, d.event_id from webhook_deliveries d join webhook_endpoints e on e.id = d.endpoint_id
      where d.chain_id = ${chainId}::bigint and d.state = 'pending' and d.created_at_ms <= ${nowMs - ageMs}::bigint
        and d.lease_until_ms <= ${nowMs}::bigint and e.failures > 0
      for update of d skip locked)
    update webhook_deliveries d set state = 'failed', finished_at_ms = ${nowMs}::bigint from old
    where d.endpoint_id = old.endpoint_id and d.event_id = old.event_id`.execute(db);
  return Number(numAffectedRows ?? 0n);
}
