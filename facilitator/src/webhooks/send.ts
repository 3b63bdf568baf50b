/** Sends one HTTP request to a receiver: bounded in time and size, never redirected, only to public addresses. */
import { isIP } from "node:net";
import type { DELIVERY_ERRORS } from "turnpike/facilitator";
import { Agent, buildConnector, request } from "undici";
import { bareHost, isPublicAddress, type Lookup, publicLookup, RefusedAddress } from "./addresses";

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
  /** resolver of host names; the system's when absent */
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
        return { kind: "failed", error: deadline.aborted ? "timeout" : kindOf(error) };
      }
    },
    close: () => agent.destroy(),
  };
}

/** Checks IP addresses in the URL itself: the lookup hook is not called for those. */
function guardedConnector({
  allowPrivate,
  timeoutMs,
  lookup,
}: Required<Omit<SenderOptions, "lookup">> & { lookup?: Lookup }) {
  const timeout = timeoutMs;
  if (allowPrivate) return buildConnector({ timeout });
  const connect = buildConnector({ timeout, lookup: publicLookup(lookup) } as buildConnector.BuildOptions);
  return ((options, callback) => {
    const host = bareHost(options.hostname);
    if (isIP(host) && !isPublicAddress(host)) return callback(new RefusedAddress(), null);
    return connect(options, callback);
  }) satisfies buildConnector.connector;
}

function kindOf(error: unknown): (typeof DELIVERY_ERRORS)[number] {
  const code = String((error as { code?: unknown }).code ?? "");
  if (error instanceof RefusedAddress) return "address";
  if (/TIMEOUT|UND_ERR_ABORTED/.test(code)) return "timeout";
  if (/^(ENOTFOUND|EAI_|ENODATA)/.test(code)) return "dns";
  if (/CERT|TLS|SSL|SELF_SIGNED|UNABLE_TO/.test(code)) return "tls";
  if (/^(HPE_|UND_ERR_RESPONSE|UND_ERR_HEADERS_OVERFLOW|UND_ERR_INVALID)/.test(code)) return "protocol";
  return "connection";
}

function secondsOf(header: string | string[] | undefined): number | undefined {
  return typeof header === "string" && /^[0-9]{1,9}$/.test(header) ? Number(header) : undefined;
}
