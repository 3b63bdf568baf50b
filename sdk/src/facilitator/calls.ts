/**
 * Reads a Facilitator's answers as typed outcomes. Expected outcomes are returned as unions; no usable answer is thrown
 * as Unavailable.
 */
import type * as z from "zod";
import { type Hex, type TurnpikeError, Unavailable } from "../protocol";
import { pendingSchema } from "./payments";
import { changeResponseSchema, type SubscriptionChange } from "./subscriptions";
import { type Answer, createTransport, type Exchange, errorOf, type TransportOptions } from "./transport";

/** Not done, and not under way by this request: `error` says why and what to do. */
export interface Refused {
  readonly kind: "refused";
  readonly error: TurnpikeError;
}

/** The outcome is not known yet: post the very same request again; sign nothing new. */
export interface Pending {
  readonly kind: "pending";
  readonly id: Hex;
  readonly retryAfterSec: number;
}

/** What was asked for. */
export interface Found<T> {
  readonly kind: "found";
  readonly value: T;
}

/** An answer to a question, or why there is none. */
export type LookUp<T> = Found<T> | Refused;

/** What became of a signup or change. */
export type ChangeOutcome = { readonly kind: "done"; readonly change: SubscriptionChange } | Pending | Refused;

/** Of one call. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

/** Of one page of a list. */
export interface PageOptions extends CallOptions {
  readonly cursor?: string;
  readonly limit?: number;
}

const DEFAULT_RETRY_SEC = 1;

/** The exchanges with one Facilitator. */
export interface Calls {
  exchange(request: Exchange): Promise<Answer>;
  lookUp<S extends z.ZodType>(schema: S, request: Exchange): Promise<LookUp<z.output<S>>>;
  change(path: string, body: unknown, call: CallOptions): Promise<ChangeOutcome>;
}

/** @throws ConfigError for a url that is no plain http(s) address */
export function createCalls(options: TransportOptions): Calls {
  const exchange = createTransport(options);
  return {
    exchange,
    async lookUp(schema, request) {
      const answer = await exchange(request);
      if (answer.status === 200) return { kind: "found", value: read(schema, answer) };
      return refusal(answer);
    },
    async change(path, body, { signal }) {
      const answer = await exchange({ method: "POST", path, body, signal });
      if (isDone(answer)) return { kind: "done", change: read(changeResponseSchema, answer) };
      return answer.status === 202 ? pending(answer) : refusal(answer);
    },
  };
}

export const isDone = (answer: Answer): boolean => answer.status === 200 || answer.status === 201;

/** @throws Unavailable when the body is not what the schema says: an answer that cannot be read is no answer */
export function read<S extends z.ZodType>(schema: S, answer: Answer): z.output<S> {
  const result = schema.safeParse(answer.json);
  if (result.success) return result.data;
  const field = result.error.issues[0]?.path.join(".") || "body";
  throw new Unavailable(`The Facilitator's answer cannot be used: ${field} is missing or malformed.`);
}

export function pending(answer: Answer): Pending {
  const { id } = read(pendingSchema, answer);
  return { kind: "pending", id, retryAfterSec: answer.retryAfterSec ?? DEFAULT_RETRY_SEC };
}

/** Codes that say nothing about the request's outcome: an earlier copy of it may still be under way. */
const NO_VERDICT: ReadonlySet<string> = new Set(["RateLimited", "NotFound"]);

/** @throws Unavailable for a 5xx, a 429, a missing route and for what is no problem body */
export function refusal(answer: Answer): Refused {
  const error = errorOf(answer);
  if (error.code === "Unavailable") throw error;
  if (!NO_VERDICT.has(error.code)) return { kind: "refused", error };
  const { message, retryAfterSec } = error;
  throw new Unavailable(message, { cause: error, ...(retryAfterSec === undefined ? {} : { retryAfterSec }) });
}
