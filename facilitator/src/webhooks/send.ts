/** Sends one HTTP request to a receiver: bounded in time and size, never redirected, only to public addresses. */
import type { DELIVERY_ERRORS } from "turnpike/facilitator";
import type { Lookup } from "turnpike/public-lookup";
import { Agent, request } from "undici";
import { connectionFault, guardedConnector } from "../lib/guarded-connector";

export interface Receiver {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly signal?: AbortSignal;
}

/** `aborted`: this service stopped meanwhile. Only the status of the response is kept. */
export type SendResult =
  | { readonly kind: "answered"; readonly statusCode: number; readonly retryAfterSec?: number }
  | { readonly kind: "failed"; readonly error: (typeof DELIVERY_ERRORS)[number] }
  | { readonly kind: "aborted" };

export interface Sender {
  send(receiver: Receiver): Promise<SendResult>;
  close(): Promise<void>;
}

export interface SenderOptions {
  readonly allowPrivate: boolean;
  /** default 15,000 */
  readonly timeoutMs?: number;
  readonly lookup?: Lookup;
}

const TIMEOUT_MS = 15_000;

/** Bytes of a response that are read to keep the connection usable; the rest is cut. */
const MAX_ANSWER_BYTES = 64 * 1_024;

export function createSender({ allowPrivate, timeoutMs = TIMEOUT_MS, lookup }: SenderOptions): Sender {
  const agent = new Agent({
    connect: guardedConnector({ allowPrivate, timeoutMs, ...(lookup && { lookup }) }),
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    keepAliveTimeout: 4_000,
  });

  return {
    async send({ url, headers, body, signal }) {
      const deadline = AbortSignal.timeout(timeoutMs);
      const both = signal ? AbortSignal.any([signal, deadline]) : deadline;
      try {
        const answer = await request(url, { method: "POST", dispatcher: agent, headers, body, signal: both });
        const { statusCode } = answer;
        // Only the status matters; the body is discarded.
        await answer.body.dump({ limit: MAX_ANSWER_BYTES, signal: both }).catch(() => undefined);
        const retryAfterSec = secondsOf(answer.headers["retry-after"]);
        return { kind: "answered", statusCode, ...(retryAfterSec !== undefined && { retryAfterSec }) };
      } catch (error) {
        if (signal?.aborted) return { kind: "aborted" };
        return { kind: "failed", error: deadline.aborted ? "timeout" : connectionFault(error) };
      }
    },
    close: () => agent.destroy(),
  };
}

function secondsOf(header: string | string[] | undefined): number | undefined {
  return typeof header === "string" && /^[0-9]{1,9}$/.test(header) ? Number(header) : undefined;
}
