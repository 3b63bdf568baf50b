/** Builds the body and Standard Webhooks headers of an event. The body is identical at every attempt. */
import { Webhook } from "standardwebhooks";
import { TEST_EVENT_TYPE, type webhookEnvelopeSchema } from "turnpike/facilitator";
import type { Network } from "turnpike/protocol";
import type { z } from "zod";

export interface EventContents {
  readonly id: string;
  readonly type: string;
  readonly object_id: string;
  readonly sequence: number;
  readonly block_time: number;
  readonly transaction: string | null;
  readonly payload: Record<string, unknown>;
}

export function bodyOf(row: EventContents, { name, chainId }: Network): string {
  const event: z.input<typeof webhookEnvelopeSchema> = {
    type: row.type,
    id: row.id,
    occurredAt: row.block_time,
    network: name,
    chainId,
    subject: row.object_id,
    sequence: row.sequence,
    ...(row.transaction && { transaction: row.transaction }),
    data: row.payload,
  };
  return JSON.stringify(event);
}

/** Events about the endpoint itself have no object. */
export function testBody(id: string, nowSec: number, network: Network): string {
  const row = { id, type: TEST_EVENT_TYPE, object_id: id, sequence: 0, block_time: nowSec, transaction: null };
  return bodyOf({ ...row, payload: { note: "This endpoint works." } }, network);
}

export interface Signing {
  readonly id: string;
  readonly body: string;
  /** unix milliseconds of this attempt */
  readonly nowMs: number;
  /** counts from 1 */
  readonly attempt: number;
  /** every valid secret: during a rotation, a receiver may know either */
  readonly secrets: readonly string[];
}

export function headersOf({ id, body, nowMs, attempt, secrets }: Signing): Record<string, string> {
  const sentAt = new Date(nowMs);
  return {
    "content-type": "application/json",
    "user-agent": "Turnpike-Webhooks/1",
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(nowMs / 1_000)),
    "webhook-signature": secrets.map((secret) => new Webhook(secret).sign(id, sentAt, body)).join(" "),
    "webhook-attempt": String(attempt),
  };
}
