/** Posts one event to the developer's own server, signed and written as the Facilitator's webhooks are. */

import type * as z from "zod";
import type { FacilitatorEvent, webhookEnvelopeSchema } from "../../facilitator";
import { webhookSignature } from "../../facilitator/verify-webhook";
import { Deadline } from "../../protocol/exchange";
import type { CliIo } from "../io";

/** Where events go, and what signs them. */
export interface Target {
  readonly url: string;
  readonly key: Uint8Array;
  /** The Facilitator's, as webhooks name it. */
  readonly network: string;
  readonly chainId: number;
}

/** What became of one event. */
export interface Delivery {
  readonly eventId: string;
  readonly type: string;
  readonly subject: string;
  readonly delivered: boolean;
  readonly attempts: number;
  /** The last answer's; undefined where there was none. */
  readonly status: number | undefined;
  /** why there was none */
  readonly error: "timeout" | "connection" | undefined;
}

/** Waits before the second and each further attempt, milliseconds. */
const RETRIES_MS = [1_000, 2_000, 4_000];

const TIMEOUT_MS = 15_000;

/** Posts an event, up to four times. Redirects are failures. @throws the signal's reason when it aborts */
export async function forward(io: CliIo, target: Target, event: FacilitatorEvent): Promise<Delivery> {
  const body = bodyOf(event, target);
  for (let attempt = 1; ; attempt++) {
    const answer = await post(io, target, { id: event.id, body, attempt });
    const { status } = answer;
    const delivered = status !== undefined && status >= 200 && status < 300;
    const waitMs = RETRIES_MS[attempt - 1];
    if (delivered || waitMs === undefined) {
      const { id: eventId, type, subject } = event;
      return { eventId, type, subject, delivered, attempts: attempt, ...answer };
    }
    await io.sleep(waitMs, io.signal);
  }
}

/** The body of the webhook, member by member in the order in which the Facilitator writes it. */
function bodyOf(event: FacilitatorEvent, { network, chainId }: Target): string {
  const { type, id, occurredAt, subject, sequence, transaction, data } = event;
  const envelope: z.input<typeof webhookEnvelopeSchema> = {
    type,
    id,
    occurredAt,
    network,
    chainId,
    subject,
    sequence,
    ...(transaction && { transaction }),
    data,
  };
  return JSON.stringify(envelope);
}

interface Posted {
  readonly id: string;
  readonly body: string;
  readonly attempt: number;
}

async function post(
  io: CliIo,
  { url, key }: Target,
  { id, body, attempt }: Posted,
): Promise<Pick<Delivery, "status" | "error">> {
  const timestamp = String(Math.floor(Date.now() / 1_000));
  const deadline = new Deadline(TIMEOUT_MS, io.signal);
  try {
    const response = await io.fetch(url, {
      method: "POST",
      redirect: "manual",
      signal: deadline.signal,
      headers: {
        "content-type": "application/json",
        "user-agent": "Turnpike-Listen/1",
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": `v1,${webhookSignature(key, { id, timestamp, body })}`,
        "webhook-attempt": String(attempt),
      },
      body,
    });
    await response.body?.cancel();
    return { status: response.status, error: undefined };
  } catch {
    if (io.signal.aborted) throw io.signal.reason;
    return { status: undefined, error: deadline.isOver ? "timeout" : "connection" };
  } finally {
    deadline.end();
  }
}
