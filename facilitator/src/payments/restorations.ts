/**
 * Announces payments whose very block came back after a reorganisation. Their settlement keeps its id, which receivers
 * have seen and skip. They have also seen the reversal, so an event with an id of its own takes it back.
 */
import { sql } from "kysely";
import type { Hex } from "turnpike/protocol";
import { keccakOfText } from "../chain/keccak";
import type { Tx } from "../db/open";
import type { EventRow } from "../db/tables/events";
import type { EventDraft } from "../events/event";
import type { EventProjection } from "../events/projection";

/** @param times how often the payment has come back before: each reversal has an id of its own */
export function reversalEventId(id: string, times: number): Hex {
  return keccakOfText(times === 0 ? `${id}/reversed` : `${id}/reversed/${times}`);
}

const RESTORED = "payment.restored";

/** Returns by payment how often it came back; a payment that never did is absent. */
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
    .where("type", "=", RESTORED)
    .groupBy("object_id")
    .execute();
  return new Map(rows.map((row) => [row.object_id, Number(row.times)]));
}

/** Announces each settlement that is valid again, if its reversal was the last event of its payment. */
export const restorations: EventProjection = { revived: restorationsOf };

async function restorationsOf(db: Tx, chainId: number, revived: readonly EventRow[]): Promise<EventDraft[]> {
  const settled = revived.filter((row) => row.type === "payment.settled");
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
  const lastTold = new Map(newest.map((row) => [row.object_id, row.type]));
  const before = await timesRestored(db, chainId, ids);
  return settled
    .filter((row) => lastTold.get(row.object_id) === "payment.reversed")
    .map((row) => ({
      id: keccakOfText(`${row.id}/restored/${(before.get(row.object_id) ?? 0) + 1}`),
      chainId,
      type: RESTORED,
      objectId: row.object_id,
      provider: row.provider ?? undefined,
      payer: row.payer ?? undefined,
      payload: row.payload,
      blockTime: row.block_time,
      // It is reverted with its block; no log of the chain belongs to it.
      ...(row.block_number !== null && { blockNumber: row.block_number }),
      ...(row.block_hash !== null && { blockHash: row.block_hash }),
      transaction: row.transaction ?? undefined,
    }));
}
