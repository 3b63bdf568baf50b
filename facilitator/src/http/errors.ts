/**
 * The status table of this API: every error leaves as problem details with its stable code. Codes and texts are those of
 * the protocol's one table; here stands only where the Facilitator's status differs from a gate's.
 */

import { type Problem, problemOf } from "turnpike/facilitator";
import { isTurnpikeError, TurnpikeError } from "turnpike/protocol";

/** 402 asks for a payment; the Facilitator never asks for one, it judges what it was given. */
const PAYMENT_REQUIRED = 402;
const NOT_PROCESSABLE = 422;

export function statusOf(error: TurnpikeError): number {
  return error.status === PAYMENT_REQUIRED ? NOT_PROCESSABLE : error.status;
}

/** What is known to be safe to tell. Anything else is `Internal`, its cause told to the log alone. */
export function tellable(error: unknown): TurnpikeError {
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
