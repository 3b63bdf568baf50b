/**
 * The payload of a settled payment repeats columns of its event, which would be half of the row. It is stored without
 * them, and completed where it is read.
 */
import type { EventRow } from "../db/tables/events";

const SETTLED = "payment.settled";

type Columns = Pick<
  EventRow,
  "type" | "object_id" | "provider" | "payer" | "block_number" | "block_time" | "transaction"
> & {
  readonly payload: Readonly<Record<string, unknown>>;
};

function repeatedFields(row: Columns): Readonly<Record<string, unknown>> {
  return {
    paymentId: row.object_id,
    payer: row.payer,
    payTo: row.provider,
    status: "settled",
    transaction: row.transaction,
    blockNumber: row.block_number,
    settledAt: row.block_time,
  };
}

export function compactPayload(row: Columns): Readonly<Record<string, unknown>> {
  if (row.type !== SETTLED) return row.payload;
  const repeated = repeatedFields(row);
  if (Object.entries(repeated).some(([field, value]) => row.payload[field] !== value)) return row.payload;
  return Object.fromEntries(Object.entries(row.payload).filter(([field]) => !(field in repeated)));
}

export function wholePayload(row: Columns): Record<string, unknown> {
  if (row.type !== SETTLED || "paymentId" in row.payload) return row.payload;
  return { ...row.payload, ...repeatedFields(row) };
}
