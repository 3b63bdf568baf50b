/**
 * Maps errors to responses: problem details with a stable code. Codes and texts come from the protocol's table. This
 * file lists only the statuses that differ from a gate's.
 */
import { randomUUID } from "node:crypto";
import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { PROBLEM_CONTENT_TYPE, type Problem, problemOf } from "turnpike/facilitator";
import { isTurnpikeError, TurnpikeError } from "turnpike/protocol";
import { CONTENT_CODING } from "./body";
import type { RequestScope } from "./request";
import { OPEN_HEADERS } from "./response-observer";

export interface ErrorResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  readonly failure?: TurnpikeError;
}

/** Converts an error to a response. No other code does. */
export function sendError(
  context: Context<RequestScope>,
  error: unknown,
  extra?: (problem: Problem) => Record<string, unknown>,
): Response {
  const { status, headers, text, failure } = errorResponseOf(error, context.get("requestId"), extra);
  context.set("failure", failure);
  return context.body(text, status as ContentfulStatusCode, {
    ...headers,
    // The rest of the body is still arriving: nothing else can follow on this connection.
    ...(failure && isBodyUnread(context, failure) && { connection: "close" }),
  });
}

export function errorResponseOf(
  error: unknown,
  requestId: string,
  extra?: (problem: Problem) => Record<string, unknown>,
): ErrorResponse {
  const failure = toPublicError(error);
  const problem = problemFor(failure, requestId);
  const retryAfterSec = retryAfterOf(failure);
  return {
    status: statusOf(failure),
    headers: {
      ...OPEN_HEADERS,
      "x-request-id": requestId,
      "cache-control": "no-store",
      "content-type": extra ? "application/json" : PROBLEM_CONTENT_TYPE,
      ...(retryAfterSec === undefined ? {} : { "retry-after": String(retryAfterSec) }),
      ...(failure.reason === CONTENT_CODING ? { "accept-encoding": "identity" } : {}),
      ...(failure.code === "InvalidApiKey" ? { "www-authenticate": "Bearer" } : {}),
      ...(failure.code === "MethodNotAllowed" ? { allow: String(failure.details?.allow) } : {}),
    },
    text: JSON.stringify({ ...problem, ...extra?.(problem) }),
    failure,
  };
}

/** Answers a request that the app does not get. */
export function problemResponse(error: unknown): Response {
  const { text, ...init } = errorResponseOf(error, randomUUID());
  return new Response(text, init);
}

function isBodyUnread({ req }: Context, { code }: TurnpikeError): boolean {
  return /^(?:POST|PATCH)$/.test(req.method) && (!req.raw.bodyUsed || code === "PayloadTooLarge");
}

/** 402 requests a payment. The Facilitator never requests one; it only verifies. */
const PAYMENT_REQUIRED = 402;

const NOT_PROCESSABLE = 422;

/** `reason` of a request that did not arrive, and of one whose head is larger than is read. */
export const REQUEST_TIMEOUT = "request_timeout";
export const HEAD_TOO_LARGE = "head_too_large";

const BY_REASON: Readonly<Record<string, number>> = { [REQUEST_TIMEOUT]: 408, [HEAD_TOO_LARGE]: 431 };

export function statusOf(error: TurnpikeError): number {
  const known = BY_REASON[error.reason ?? ""];
  if (known !== undefined) return known;
  return error.status === PAYMENT_REQUIRED ? NOT_PROCESSABLE : error.status;
}

/** Returns the error when it is safe to expose. Any other error is `Internal`, and its cause goes to the log only. */
export function toPublicError(error: unknown): TurnpikeError {
  return isTurnpikeError(error) ? error : new TurnpikeError("Internal", undefined, { cause: error });
}

const UNAVAILABLE = 503;

/** Used when the error itself has no time. */
const RETRY_AFTER_SEC = 2;

/** Returns seconds for the Retry-After header; every 503 has one. */
export function retryAfterOf(error: TurnpikeError): number | undefined {
  return error.retryAfterSec ?? (statusOf(error) === UNAVAILABLE ? RETRY_AFTER_SEC : undefined);
}

export function problemFor(error: TurnpikeError, requestId: string): Problem {
  return { ...problemOf(error, requestId), status: statusOf(error) };
}
