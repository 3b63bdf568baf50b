/**
 * Makes HTTP exchanges with a Facilitator: bounded in time and size, never redirected, JSON only; and reads the answers
 * as typed outcomes. Expected outcomes are returned as unions. Any malformed answer is thrown as `Unavailable`: the
 * outcome is unknown, and the caller may retry.
 */
import type * as z from "zod";
import { ConfigError, type Hex, TurnpikeError, Unavailable } from "../protocol";
import { aNumber, aText, callback, optionsOf, wrongKind } from "../protocol/arguments";
import { boundedText, Deadline, isConnectionClosed, overOwnConnection } from "../protocol/exchange";
import type { TraceHeaders } from "../protocol/tracing";
import type { AnswerSchemaOf, EndpointAt, EndpointKey, ParamsOf } from "./endpoints/keyed";
import { pendingSchema } from "./payments";
import { errorOfProblem, problemSchema } from "./problem";
import { changeResponseSchema, type SubscriptionChange } from "./subscriptions";

export type FetchLike = (input: string, init: RequestInit) => Promise<Response>;

export interface TransportOptions {
  /** base address; a path is kept, a trailing slash does not matter */
  readonly url: string;
  readonly fetch?: FetchLike;
  /** a provider's; goes into one header and nowhere else */
  readonly apiKey?: string;
  /** for a whole exchange, body included. Default 40,000: `/authorize` alone may hold for 25 s */
  readonly timeoutMs?: number;
}

/** What a request to an endpoint carries. */
interface Input {
  /** the fields of its path */
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  readonly trace?: TraceHeaders | undefined;
}

/** An answer of the endpoint K. */
interface Answer<K extends EndpointKey = EndpointKey> {
  /** in types alone */
  readonly of?: K;
  readonly status: number;
  readonly json: unknown;
  readonly retryAfterSec: number | undefined;
}

const MAX_RESPONSE_BYTES = 1_048_576;

const DEFAULT_TIMEOUT_MS = 40_000;

const checkOptions = optionsOf<TransportOptions>({ url: aText, fetch: callback, apiKey: aText, timeoutMs: aNumber }, [
  "url",
]);

type InputOf<K extends EndpointKey> = Omit<Input, "params"> & ParamsOf<EndpointAt<K>>;

type Exchange = <K extends EndpointKey>(endpoint: K, input: InputOf<K>) => Promise<Answer<K>>;

function createTransport(options: TransportOptions): Exchange {
  checkOptions(options, "");
  const base = baseOf(options.url);
  const send: FetchLike = options.fetch ?? ((input, init) => fetch(input, init));
  const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;

  return async <K extends EndpointKey>(endpoint: K, input: InputOf<K>): Promise<Answer<K>> => {
    const { params = {}, query, body, signal, trace }: Input = input;
    const [method = "", template = ""] = endpoint.split(" ");
    const path = template.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(params[name])));
    const url = `${base}${path}${queryString(query)}`;
    const json = body === undefined ? undefined : jsonOf(body, `${method} ${path}`);
    const deadline = new Deadline(timeoutMs, signal);
    /** Reads are sent once more where a kept connection was closed before the answer. */
    const once = (init: RequestInit) =>
      send(url, init).catch((error) => {
        if (method !== "GET" || deadline.isOver || !isConnectionClosed(error)) throw error;
        return send(url, { ...init, ...overOwnConnection() });
      });
    try {
      const response = await once({
        method,
        redirect: "manual",
        signal: deadline.signal,
        headers: {
          accept: "application/json",
          ...(options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` }),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...trace,
        },
        ...(json === undefined ? {} : { body: json }),
      });
      return await answerOf(response);
    } catch (error) {
      if (error instanceof TurnpikeError) throw error;
      const what = deadline.isOver ? `did not answer within ${timeoutMs} ms` : "cannot be reached";
      throw new Unavailable(`The Facilitator at ${base} ${what}.`, { cause: error });
    } finally {
      deadline.end();
    }
  };
}

function jsonOf(body: unknown, of: string): string {
  try {
    return JSON.stringify(body);
  } catch {
    throw new ConfigError(`${of}: its body is no JSON: write amounts as decimal strings, as in "500000"`);
  }
}

async function answerOf(response: Response): Promise<Omit<Answer, "of">> {
  const retryAfterSec = parseRetryAfter(response.headers.get("retry-after"));
  const details = { status: response.status, isJson: false };
  const noAnswer = (why: string): Unavailable =>
    new Unavailable(`The Facilitator's answer cannot be used: ${why}.`, { details, ...optionalRetry(retryAfterSec) });

  if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
    await response.body?.cancel();
    throw noAnswer(`HTTP ${response.status}, a redirect`);
  }
  if (!/^application\/(?:[\w.-]+\+)?json\b/i.test(response.headers.get("content-type") ?? "")) {
    await response.body?.cancel();
    throw noAnswer(`HTTP ${response.status} without JSON`);
  }
  const text = await boundedText(response, MAX_RESPONSE_BYTES);
  if (text === undefined) throw noAnswer(`it is larger than ${MAX_RESPONSE_BYTES} bytes`);
  try {
    return { status: response.status, json: JSON.parse(text) as unknown, retryAfterSec };
  } catch (error) {
    const why = { cause: error, details, ...optionalRetry(retryAfterSec) };
    throw new Unavailable("The Facilitator's answer is not JSON.", why);
  }
}

/** Returns the error of a status of 400 or more; a 5xx is always `Unavailable`, with the body's error as its cause. */
function errorOf(answer: Answer): TurnpikeError {
  const problem = problemSchema.safeParse(answer.json);
  // The header counts where the body names no time.
  const retryAfter = (problem.success ? problem.data.retryAfter : undefined) ?? answer.retryAfterSec;
  const reported = problem.success ? errorOfProblem({ ...problem.data, retryAfter }) : undefined;
  const message = problem.success ? problem.data.message : `The Facilitator answered HTTP ${answer.status}.`;
  const retryAfterSec = reported?.retryAfterSec ?? answer.retryAfterSec;
  if (answer.status >= 500 || (reported === undefined && answer.status !== 404)) {
    const details = { status: answer.status, isJson: true };
    return new Unavailable(message, {
      details,
      ...(reported ? { cause: reported } : {}),
      ...optionalRetry(retryAfterSec),
    });
  }
  return reported ?? new TurnpikeError("NotFound", message);
}

const optionalRetry = (retryAfterSec: number | undefined) => (retryAfterSec === undefined ? {} : { retryAfterSec });

function parseRetryAfter(value: string | null): number | undefined {
  return value !== null && /^[0-9]{1,6}$/.test(value) ? Number(value) : undefined;
}

function queryText(value: unknown, field: string): string {
  if (/^(?:string|number|bigint|boolean)$/.test(typeof value)) return String(value);
  throw wrongKind(value, field, "a text or a number");
}

function queryString(query: Input["query"]): string {
  const pairs = Object.entries(query ?? {}).flatMap(([key, value]) =>
    value === undefined ? [] : [[key, queryText(value, key)] as [string, string]],
  );
  return pairs.length === 0 ? "" : `?${new URLSearchParams(pairs).toString()}`;
}

function baseOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || (url.protocol !== "http:" && url.protocol !== "https:") || url.username || url.search || url.hash) {
    throw new ConfigError("url of the Facilitator must be an http(s) address without credentials, query or fragment");
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
}

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

/** Of one call about what two chains of a Facilitator can have: an account, a list, a token. */
export interface ChainCallOptions extends CallOptions {
  /** by name or as `eip155:8453`; absent: the only chain, or the first that the Facilitator serves */
  readonly network?: string | undefined;
}

/** Of one call about a payment. */
export interface PaymentCallOptions extends CallOptions {
  /** the trace of the request that the payment is for, where the program traces nothing itself */
  readonly trace?: TraceHeaders | undefined;
}

/** Of one page of a list. */
export interface PageOptions extends ChainCallOptions {
  readonly cursor?: string;
  readonly limit?: number;
}

const DEFAULT_RETRY_SEC = 1;

type ChangeKey = {
  [K in EndpointKey]: typeof changeResponseSchema extends AnswerSchemaOf<EndpointAt<K>> ? K : never;
}[EndpointKey];

/** The exchanges with one Facilitator. */
export interface Calls {
  readonly exchange: Exchange;
  lookUp<K extends EndpointKey, S extends z.ZodType & AnswerSchemaOf<EndpointAt<K>>>(
    endpoint: K,
    schema: S,
    input: InputOf<K>,
  ): Promise<LookUp<z.output<S>>>;
  /** Submits a signup or a signed change. */
  change<K extends ChangeKey>(endpoint: K, input: InputOf<K>): Promise<ChangeOutcome>;
}

/** @throws ConfigError for a url that is no plain http(s) address */
export function createCalls(options: TransportOptions): Calls {
  const exchange = createTransport(options);
  return {
    exchange,
    async lookUp(endpoint, schema, input) {
      const answer = await exchange(endpoint, input);
      if (answer.status === 200) return { kind: "found", value: read(schema, answer) };
      return refusal(answer);
    },
    async change(endpoint, input) {
      const answer: Answer = await exchange(endpoint, input);
      if (isDone(answer)) return { kind: "done", change: read(changeResponseSchema, answer) };
      return answer.status === 202 ? pending(answer) : refusal(answer);
    },
  };
}

export const isDone = (answer: Answer): boolean => answer.status === 200 || answer.status === 201;

/** @throws Unavailable when the body is not what the schema says: an answer that cannot be read is no answer */
export function read<K extends EndpointKey, S extends z.ZodType & AnswerSchemaOf<EndpointAt<K>>>(
  schema: S,
  answer: Answer<K>,
): z.output<S> {
  const result = (schema as z.ZodType<z.output<S>>).safeParse(answer.json);
  if (result.success) return result.data;
  const field = result.error.issues[0]?.path.join(".") || "body";
  throw new Unavailable(`The Facilitator's answer cannot be used: ${field} is missing or malformed.`, {
    details: { status: answer.status, isJson: true },
  });
}

export function pending(answer: Answer): Pending {
  const { id } = read(pendingSchema, answer);
  return { kind: "pending", id, retryAfterSec: answer.retryAfterSec ?? DEFAULT_RETRY_SEC };
}

/** Codes of refusals before any work: they say nothing of an earlier copy of the request, which may be under way. */
export const NO_VERDICT: ReadonlySet<string> = new Set(["RateLimited", "NotFound", "MethodNotAllowed"]);

/** @throws Unavailable for a 5xx, a 429, a missing route and for what is no problem body */
export function refusal(answer: Answer): Refused {
  const error = errorOf(answer);
  if (error.code === "Unavailable") throw error;
  if (!NO_VERDICT.has(error.code)) return { kind: "refused", error };
  const { message, retryAfterSec } = error;
  const details = { status: answer.status, isJson: true };
  throw new Unavailable(message, { cause: error, details, ...optionalRetry(retryAfterSec) });
}
