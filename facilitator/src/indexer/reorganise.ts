/** Takes back a block that the chain no longer has: records as they were, payments pending again, and it is told. */
import { sql } from "kysely";
import type { Tx } from "../db/open";
import { chainEventId, type EventDraft } from "../events/event";
import type { EventFeed } from "../events/feed";
import { reversalEventId, timesRestored } from "../payments/restorations";
import { paymentPayload, UNMINED } from "../payments/rows";
import { unmineTransactions } from "../relayer/transactions";
import { undoBlock } from "./undo";

export interface TakenBack {
  readonly paymentIds: readonly string[];
}

export async function takeBack(
  tx: Tx,
  { chainId, feed }: { readonly chainId: number; readonly feed: EventFeed },
  block: { readonly number: number; readonly hash: string; readonly timestamp: number },
): Promise<TakenBack> {
  // While the plans that it counts by still stand.
  await feed.revertBlock(tx, block);
  await undoBlock(tx, chainId, block.number);
  const reversed = await tx
    .selectFrom("payments")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where("block_hash", "=", block.hash)
    .forUpdate()
    .execute();
  const restored = await timesRestored(
    tx,
    chainId,
    reversed.map((payment) => payment.payment_id),
  );
  await tx
    .updateTable("payments")
    .set({
      ...UNMINED,
      settled_at_ms: null,
      // Of our own transaction the relayer sends the same bytes again; after a stranger's we send it ourselves.
      state: sql<"queued" | "sent">`case when transaction_id is null then 'queued' else 'sent' end`,
      is_reversed: sql<boolean>`state = 'settled'`,
    })
    .where("chain_id", "=", chainId)
    .where("block_hash", "=", block.hash)
    .execute();
  // Accepted upon a block that is no more: on the other branch one of the same height may hold its transaction.
  await tx
    .updateTable("payments")
    .set({ accepted_block: block.number - 1 })
    .where("chain_id", "=", chainId)
    .where("state", "in", ["queued", "sent", "parked"])
    .where("accepted_block", ">=", block.number)
    .execute();
  const events: EventDraft[] = [];
  for (const payment of reversed) {
    if (payment.state !== "settled") continue;
    const settledId = chainEventId(chainId, block.hash, payment.log_index ?? 0, "payment.settled");
    events.push({
      id: reversalEventId(settledId, restored.get(payment.payment_id) ?? 0),
      chainId,
      type: "payment.reversed",
      objectId: payment.payment_id,
      provider: payment.pay_to,
      payer: payment.payer,
      payload: {
        ...paymentPayload({ ...payment, ...UNMINED }),
        status: "reversed",
        reversedTransaction: payment.tx_hash,
      },
      blockTime: block.timestamp,
      transaction: payment.tx_hash ?? undefined,
    });
  }
  await feed.append(tx, events);
  await unmineTransactions(tx, chainId, { from: block.number, to: block.number, hashes: [] });
  await tx.deleteFrom("blocks").where("chain_id", "=", chainId).where("number", "=", block.number).execute();
  return { paymentIds: reversed.map((payment) => payment.payment_id) };
}
