/**
 * The status table of this API: every error leaves as problem details with its stable code. Codes and texts are those of
 * the protocol's one table; here stands only where the Facilitator's status differs from a gate's.
 */
import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { PROBLEM_CONTENT_TYPE, type Problem, problemOf } from "turnpike/facilitator";
import { isTurnpikeError, TurnpikeError } from "turnpike/protocol";
import { CONTENT_CODING } from "./body";
import type { RequestScope } from "./request";

/** An answer as it is sent, but for what every answer carries. */
export interface ErrorResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  readonly failure?: TurnpikeError;
}

/** The one place where an error becomes an answer. */
export function sendError(
  context: Context<RequestScope>,
  error: unknown,
  extra?: (problem: Problem) => Record<string, unknown>,
): Response {
  const { status, headers, text, failure } = errorResponseOf(error, context.get("requestId"), extra);
  context.set("failure", failure);
  return context.body(text, status as ContentfulStatusCode, {
    ...headers,
    // The rest of the body is still on its way: nothing else can follow on this connection.
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
      "content-type": extra ? "application/json" : PROBLEM_CONTENT_TYPE,
      ...(retryAfterSec === undefined ? {} : { "retry-after": String(retryAfterSec) }),
      ...(failure.reason === CONTENT_CODING ? { "accept-encoding": "identity" } : {}),
    },
    text: JSON.stringify({ ...problem, ...extra?.(problem) }),
    failure,
  };
}

function isBodyUnread({ req }: Context, { code }: TurnpikeError): boolean {
  return /^(?:POST|PATCH)$/.test(req.method) && (!req.raw.bodyUsed || code === "PayloadTooLarge");
}

/** 402 asks for a payment; the Facilitator never asks for one, it judges what it was given. */
const PAYMENT_REQUIRED = 402;

const NOT_PROCESSABLE = 422;

export function statusOf(error: TurnpikeError): number {
  return error.status === PAYMENT_REQUIRED ? NOT_PROCESSABLE : error.status;
}

/** What is known to be safe to tell. Anything else is `Internal`, its cause told to the log alone. */
export function toPublicError(error: unknown): TurnpikeError {
  return isTurnpikeError(error) ? error : new TurnpikeError("Internal", undefined, { cause: error });
}

const UNAVAILABLE = 503;

/** Where the error itself names no time. */
const RETRY_AFTER_SEC = 2;

/** Seconds for the Retry-After header; every 503 has one. */
export function retryAfterOf(error: TurnpikeError): number | undefined {
  return error.retryAfterSec ?? (statusOf(error) === UNAVAILABLE ? RETRY_AFTER_SEC : undefined);
}

export function problemFor(error: TurnpikeError, requestId: string): Problem {
  return { ...problemOf(error, requestId), status: statusOf(error) };
}
