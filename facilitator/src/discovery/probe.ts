/**
 * Asks a URL that a provider named for its 402: bounded in time and size, never redirected, only at public addresses,
 * without any credential.
 */
import type { Listing } from "turnpike/facilitator";
import type { Lookup } from "turnpike/public-lookup";
import { Agent, request } from "undici";
import { connectionFault, guardedConnector } from "../lib/guarded-connector";

export type ListingProblem = NonNullable<Listing["problem"]>;

/** A 402 as it was received, or why there is none. `aborted`: this service stopped meanwhile. */
export type ProbeResult =
  | { readonly kind: "answered"; readonly required: string | undefined; readonly body: string }
  | { readonly kind: "failed"; readonly problem: ListingProblem }
  | { readonly kind: "aborted" };

export interface Prober {
  ask(target: { readonly method: Listing["method"]; readonly url: string }, signal?: AbortSignal): Promise<ProbeResult>;
  close(): Promise<void>;
}

export interface ProberOptions {
  readonly allowPrivate: boolean;
  /** for a whole exchange; default 5,000 */
  readonly timeoutMs?: number;
  readonly lookup?: Lookup;
}

const TIMEOUT_MS = 5_000;

const MAX_HEADER_BYTES = 16_384;

const MAX_BODY_BYTES = 65_536;

const PAYMENT_REQUIRED = 402;

const HEADERS = {
  accept: "application/json",
  "accept-encoding": "identity",
  "user-agent": "turnpike-facilitator (discovery)",
};

export function createProber({ allowPrivate, timeoutMs = TIMEOUT_MS, lookup }: ProberOptions): Prober {
  const agent = new Agent({
    connect: guardedConnector({ allowPrivate, timeoutMs, ...(lookup && { lookup }) }),
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    maxHeaderSize: MAX_HEADER_BYTES,
    maxResponseSize: MAX_BODY_BYTES,
    // The next check is hours away.
    pipelining: 0,
  });
  return {
    async ask({ method, url }, signal) {
      const deadline = AbortSignal.timeout(timeoutMs);
      const both = signal ? AbortSignal.any([signal, deadline]) : deadline;
      try {
        const answer = await request(url, { method, dispatcher: agent, headers: HEADERS, signal: both });
        const { statusCode, headers } = answer;
        if (statusCode !== PAYMENT_REQUIRED) {
          answer.body.on("error", () => undefined).destroy();
          return { kind: "failed", problem: statusCode >= 300 && statusCode < 400 ? "redirect" : "status" };
        }
        const required = headers["payment-required"];
        if (Array.isArray(required)) return { kind: "failed", problem: "malformed" };
        return { kind: "answered", required, body: await answer.body.text() };
      } catch (error) {
        if (signal?.aborted) return { kind: "aborted" };
        if (deadline.aborted) return { kind: "failed", problem: "timeout" };
        return { kind: "failed", problem: isTooLarge(error) ? "too_large" : connectionFault(error) };
      }
    },
    close: () => agent.destroy(),
  };
}

function isTooLarge(error: unknown): boolean {
  const code = String((error as { code?: unknown }).code ?? "");
  return /^(UND_ERR_RES_EXCEEDED_MAX_SIZE|UND_ERR_HEADERS_OVERFLOW|HPE_HEADER_OVERFLOW)$/.test(code);
}
