/**
 * Makes one HTTP exchange with a Facilitator: bounded in time and size, never redirected, JSON only. Knows no endpoint.
 * Any malformed answer is `Unavailable`: the outcome is unknown, and the caller may retry.
 */
import { ConfigError, TurnpikeError, Unavailable } from "../protocol";
import { boundedText } from "../protocol/bounded-text";
import { Deadline } from "../protocol/waiting";
import { errorOfProblem, problemSchema } from "./problem";

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

export interface Exchange {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
}

export interface Answer {
  readonly status: number;
  readonly json: unknown;
  readonly retryAfterSec: number | undefined;
}

const MAX_RESPONSE_BYTES = 1_048_576;

const DEFAULT_TIMEOUT_MS = 40_000;

export function createTransport(options: TransportOptions): (exchange: Exchange) => Promise<Answer> {
  const base = baseOf(options.url);
  const send: FetchLike = options.fetch ?? ((input, init) => fetch(input, init));
  const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;

  return async ({ method, path, query, body, signal }) => {
    const url = `${base}${path}${queryString(query)}`;
    const deadline = new Deadline(timeoutMs, signal);
    try {
      const response = await send(url, {
        method,
        redirect: "manual",
        signal: deadline.signal,
        headers: {
          accept: "application/json",
          ...(options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` }),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
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

async function answerOf(response: Response): Promise<Answer> {
  const retryAfterSec = parseRetryAfter(response.headers.get("retry-after"));
  const noAnswer = (why: string): Unavailable =>
    new Unavailable(`The Facilitator's answer cannot be used: ${why}.`, optionalRetry(retryAfterSec));

  if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
    await response.body?.cancel();
    throw noAnswer("it redirects");
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
    throw new Unavailable("The Facilitator's answer is not JSON.", { cause: error, ...optionalRetry(retryAfterSec) });
  }
}

/** Returns the error of a status of 400 or more; a 5xx is always `Unavailable`, with the body's error as its cause. */
export function errorOf(answer: Answer): TurnpikeError {
  const problem = problemSchema.safeParse(answer.json);
  // The header counts where the body names no time.
  const retryAfter = (problem.success ? problem.data.retryAfter : undefined) ?? answer.retryAfterSec;
  const reported = problem.success ? errorOfProblem({ ...problem.data, retryAfter }) : undefined;
  const message = problem.success ? problem.data.message : `The Facilitator answered HTTP ${answer.status}.`;
  const retryAfterSec = reported?.retryAfterSec ?? answer.retryAfterSec;
  if (answer.status >= 500 || (reported === undefined && answer.status !== 404)) {
    return new Unavailable(message, { ...(reported ? { cause: reported } : {}), ...optionalRetry(retryAfterSec) });
  }
  return reported ?? new TurnpikeError("NotFound", message);
}

const optionalRetry = (retryAfterSec: number | undefined) => (retryAfterSec === undefined ? {} : { retryAfterSec });

function parseRetryAfter(value: string | null): number | undefined {
  return value !== null && /^[0-9]{1,6}$/.test(value) ? Number(value) : undefined;
}

function queryString(query: Exchange["query"]): string {
  const pairs = Object.entries(query ?? {}).flatMap(([key, value]) =>
    value === undefined ? [] : [[key, String(value)] as [string, string]],
  );
  return pairs.length === 0 ? "" : `?${new URLSearchParams(pairs).toString()}`;
}

function baseOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || (url.protocol !== "http:" && url.protocol !== "https:") || url.username || url.search || url.hash) {
    throw new ConfigError("The Facilitator's url must be an http(s) address without credentials, query or fragment.");
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
}
