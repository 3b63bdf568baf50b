/**
 * Announces payments whose own block returned after a reorganisation. Their settlement event keeps its id, so receivers
 * skip it as a duplicate. They also have the reversal event, so a new event with its own id cancels that.
 */
import { sql } from "kysely";
import { type Hex, keccakText } from "turnpike/protocol";
import type { Tx } from "../db/open";
import type { EventRow } from "../db/tables/events";
import type { EventDraft } from "../events/event";
import type { EventProjection } from "../events/projection";
import { PAYMENT_EVENTS, REFUND_EVENTS } from "./transfer-events";

/** @param times how often the payment was restored before: each reversal has its own id */
export function reversalEventId(id: string, times: number): Hex {
  return keccakText(times === 0 ? `${id}/reversed` : `${id}/reversed/${times}`);
}

const RESTORED = [PAYMENT_EVENTS.restored, REFUND_EVENTS.restored];

/** Returns how often each payment was restored; a payment that never was is absent. */
export async function timesRestored(
  db: Tx,
  chainId: number,
  paymentIds: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  if (paymentIds.length === 0) return new Map();
  const rows = await db
    .selectFrom("events")
    .select(["object_id", sql<number>`count(*)`.as("times")])
    .where("chain_id", "=", chainId)
    .where("object_id", "in", [...paymentIds])
    .where("type", "in", RESTORED)
    .groupBy("object_id")
    .execute();
  return new Map(rows.map((row) => [row.object_id, Number(row.times)]));
}

/** Announces each settlement that is valid again, if the payment's last event is its reversal. */
export const restorations: EventProjection = { revived: restorationsOf };

async function restorationsOf(db: Tx, chainId: number, revived: readonly EventRow[]): Promise<EventDraft[]> {
  const settled = revived.flatMap((row) => {
    const types = [PAYMENT_EVENTS, REFUND_EVENTS].find(({ settled: type }) => type === row.type);
    return types ? [{ ...row, types }] : [];
  });
  if (settled.length === 0) return [];
  const ids = settled.map((row) => row.object_id);
  const newest = await db
    .selectFrom("events")
    .distinctOn("object_id")
    .select(["object_id", "type"])
    .where("chain_id", "=", chainId)
    .where("object_id", "in", ids)
    .orderBy("object_id")
    .orderBy("sequence", "desc")
    .execute();
  const lastType = new Map(newest.map((row) => [row.object_id, row.type]));
  const before = await timesRestored(db, chainId, ids);
  return settled
    .filter((row) => lastType.get(row.object_id) === row.types.reversed)
    .map((row) => ({
      id: keccakText(`${row.id}/restored/${(before.get(row.object_id) ?? 0) + 1}`),
      chainId,
      type: row.types.restored,
      objectId: row.object_id,
      provider: row.provider ?? undefined,
      payer: row.payer ?? undefined,
      payload: row.payload,
      blockTime: row.block_time,
      // The event is reverted with this block, but belongs to no log of it.
      ...(row.block_number !== null && { blockNumber: row.block_number }),
      ...(row.block_hash !== null && { blockHash: row.block_hash }),
      transaction: row.transaction ?? undefined,
    }));
}
