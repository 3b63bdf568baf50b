/** What an operator does to one endpoint of any provider. Each is an act of the service in the audit log. */
import { TurnpikeError } from "turnpike/protocol";
import { recordAct } from "../db/audit";
import type { Store, Tx } from "../db/open";
import { dropPending } from "./outbox";

export interface OperatedEndpoint {
  readonly store: Store;
  readonly id: string;
  /** unix milliseconds */
  readonly nowMs: number;
}

/** Disables an endpoint and drops what waits for it; its owner enables it again. @throws UnknownObject */
export function disableEndpoint({ store, id, nowMs }: OperatedEndpoint): Promise<void> {
  return store.transaction(async (tx) => {
    await lockEndpoint(tx, id, "webhook.disabled");
    const disabled = { status: "disabled", disabled_reason: "operator" } as const;
    await tx.updateTable("webhook_endpoints").set(disabled).where("id", "=", id).execute();
    await dropPending(tx, id, nowMs);
  });
}

/**
 * Makes everything due that waits for an endpoint, at its full share.
 * @returns how many deliveries
 * @throws UnknownObject
 */
export async function sendWaiting({ store, id, nowMs }: OperatedEndpoint): Promise<number> {
  const count = await store.transaction(async (tx) => {
    await lockEndpoint(tx, id, "webhook.sent");
    await tx.updateTable("webhook_endpoints").set({ failures: 0 }).where("id", "=", id).execute();
    const { numUpdatedRows } = await tx
      .updateTable("webhook_deliveries")
      .set({ due_at_ms: nowMs })
      .where("endpoint_id", "=", id)
      .where("state", "=", "pending")
      .executeTakeFirst();
    return Number(numUpdatedRows);
  });
  store.notifier.notify("events");
  return count;
}

async function lockEndpoint(tx: Tx, id: string, act: string): Promise<void> {
  const row = await tx
    .selectFrom("webhook_endpoints")
    .select(["chain_id", "provider"])
    .where("id", "=", id)
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (!row)
    throw new TurnpikeError("UnknownObject", `no webhook endpoint ${id}: turnpike_webhook_endpoint_pending names them`);
  await recordAct(tx, { chainId: row.chain_id, provider: row.provider, actor: "service", act, objectId: id });
}
