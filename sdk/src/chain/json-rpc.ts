/**
 * Sends JSON-RPC calls to one endpoint over HTTP, and classifies what goes wrong. Knows no method and no chain library:
 * agents in browsers and the Facilitator use it too. No message repeats an endpoint's own text, which may hold its URL,
 * and with it an API key.
 */
import { type Hex, isTurnpikeError, Unavailable, utf8ToBytes } from "../protocol";
import { callback, fieldsOf } from "../protocol/arguments";
import { boundedText, Deadline, isConnectionClosed, networkFault, overOwnConnection } from "../protocol/exchange";

/** One call of a method. */
export interface RpcCall {
  readonly method: string;
  readonly params: readonly unknown[];
}

/** What an endpoint answered to one call. */
export interface RpcAnswer {
  readonly id?: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code?: unknown; readonly message?: unknown; readonly data?: unknown };
}

/** An error that an endpoint answered with. Its message is the endpoint's own. */
export class RpcAnswerError extends Error {
  constructor(
    readonly rpcCode: number,
    message: string,
    readonly data: unknown,
  ) {
    super(message);
    this.name = "RpcAnswerError";
  }
}

/** A request as it goes to an endpoint. */
export interface RpcPostRequest {
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** not over a kept connection, where the client can choose: the other side has closed one */
  readonly isRepeated: boolean;
}

/** Posts a request, and returns the response's status and body. Follows no redirects. */
export type RpcPost = (
  url: string,
  request: RpcPostRequest,
) => Promise<{ readonly status: number; readonly text: string }>;

/** No honest answer is larger, and an endless one ends. */
export const MAX_ANSWER_BYTES = 256 * 1024 * 1024;

/** Posts by a `fetch`. @param maxBytes of an answer */
export function postByFetch(
  send: (input: string, init: RequestInit) => Promise<Response>,
  maxBytes = MAX_ANSWER_BYTES,
): RpcPost {
  callback(send, "send");
  return async (url, { body, headers, signal, isRepeated }) => {
    const init: RequestInit = { method: "POST", headers: { ...headers }, body, redirect: "manual", signal };
    const response = await send(url, isRepeated ? { ...init, ...overOwnConnection() } : init);
    const text = await boundedText(response, maxBytes);
    if (text === undefined) throw new Unavailable("a node's answer is too large", { reason: "too_large" });
    return { status: response.status, text };
  };
}

/** One endpoint, and how it is reached. */
export interface RpcEndpointOptions {
  /** http(s)://; a user and password in it go into the header for them */
  readonly url: string;
  readonly post: RpcPost;
  readonly timeoutMs: number;
  /** aborts every exchange, now and later, with its own reason */
  readonly signal?: AbortSignal | undefined;
}

/** "limit exceeded": another endpoint may answer */
const LIMIT_EXCEEDED = -32_005;

/** Exchanges calls with one endpoint over HTTP. */
export class RpcEndpoint {
  /** Returns whether a call changes nothing, so that it may be sent again when its outcome is unknown. */
  static isRead({ method }: RpcCall): boolean {
    return !method.startsWith("eth_send");
  }

  readonly #options: RpcEndpointOptions;
  readonly #address: ReturnType<typeof addressOf>;
  readonly #pending = new Set<Deadline>();

  constructor(options: RpcEndpointOptions) {
    const { signal } = options;
    this.#options = options;
    this.#address = addressOf(options.url);
    // One listener for all exchanges: many at once would make Node warn of a leak.
    signal?.addEventListener("abort", () => {
      for (const deadline of this.#pending) deadline.abort(signal.reason);
    });
  }

  /**
   * Sends calls in one request; reads once more where the connection was closed before the answer.
   * @returns one answer for each call, in their order
   * @throws Unavailable when there are none; the failure of the connection; the signal's reason
   */
  async exchange(calls: readonly RpcCall[], timeoutMs = this.#options.timeoutMs): Promise<RpcAnswer[]> {
    const { signal } = this.#options;
    signal?.throwIfAborted();
    const deadline = new Deadline(timeoutMs);
    this.#pending.add(deadline);
    try {
      const { status, text } = await this.#post(calls, deadline);
      if (status < 200 || status > 299) {
        throw new Unavailable(`a node answered with HTTP ${status}`, { reason: `http_${status}` });
      }
      return answersOf(calls, JSON.parse(text));
    } catch (cause) {
      if (!deadline.isOver) throw cause;
      throw new Unavailable("a node did not answer in time", { cause, reason: "timeout" });
    } finally {
      deadline.end();
      this.#pending.delete(deadline);
    }
  }

  async #post(calls: readonly RpcCall[], deadline: Deadline) {
    const { post } = this.#options;
    const { url, headers } = this.#address;
    const request = { headers, body: bodyOf(calls), signal: deadline.signal };
    try {
      return await post(url, { ...request, isRepeated: false });
    } catch (error) {
      if (deadline.isOver || !isConnectionClosed(error) || !calls.every(RpcEndpoint.isRead)) throw error;
      return post(url, { ...request, isRepeated: true });
    }
  }

  /** Sends one call, and returns its result. @throws RpcAnswerError, and what `exchange` throws */
  async request(method: string, params: readonly unknown[], timeoutMs?: number): Promise<unknown> {
    const [answer] = await this.exchange([{ method, params }], timeoutMs);
    return resultOf(answer as RpcAnswer);
  }
}

/** @throws RpcAnswerError when the answer is an error */
export function resultOf(answer: RpcAnswer): unknown {
  const { error, result } = fieldsOf(answer, "answer");
  if (error) throw new RpcAnswerError(Number(error.code ?? 0), String(error.message ?? ""), error.data);
  return result;
}

/** `fetch` refuses URLs with credentials. */
function addressOf(text: string): { readonly url: string; readonly headers: Readonly<Record<string, string>> } {
  const headers = { "content-type": "application/json" };
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url?.username && !url?.password) return { url: text, headers };
  const credentials = utf8ToBytes(`${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`);
  url.username = "";
  url.password = "";
  return {
    url: url.href,
    headers: { ...headers, authorization: `Basic ${btoa(String.fromCharCode(...credentials))}` },
  };
}

/** A single call is sent alone: not every endpoint takes lists. */
function bodyOf(calls: readonly RpcCall[]): string {
  const bodies = calls.map(({ method, params }, id) => ({ jsonrpc: "2.0", id, method, params }));
  return JSON.stringify(bodies.length === 1 ? bodies[0] : bodies);
}

/** @throws Unavailable when an answer is missing, or the endpoint's limit is exceeded */
function answersOf(calls: readonly RpcCall[], body: RpcAnswer | RpcAnswer[]): RpcAnswer[] {
  const byId = new Map((Array.isArray(body) ? body : [body]).map((answer) => [answer?.id, answer]));
  return calls.map((_, id) => {
    const answer = byId.get(id);
    if (!answer || (answer.error === undefined && answer.result === undefined)) {
      throw new Unavailable("a node's answer to a batch is incomplete", { reason: "incomplete" });
    }
    if (answer.error?.code === LIMIT_EXCEEDED) {
      throw new Unavailable("a node's request limit is exceeded", { reason: "limit_exceeded" });
    }
    return answer;
  });
}

/** Messages of nodes for calls that ran and failed. */
const FAILED_CALL = /revert|out of gas|invalid (?:opcode|jump)|stack (?:under|over)flow|stack limit|write protection/i;

/**
 * Returns the data that the chain reverted a call with; "0x" when there is none. Endpoints put it in `data` or in
 * `data.data`.
 * @returns undefined when the endpoint did not run the call
 */
export function revertDataOf(error: RpcAnswerError): Hex | undefined {
  const { data, message } = fieldsOf(error, "error");
  const nested = typeof data === "object" && data !== null ? (data as { data?: unknown }).data : data;
  if (typeof nested === "string" && /^0x([0-9a-fA-F]{2})*$/.test(nested)) return nested as Hex;
  return FAILED_CALL.test(`${typeof message === "string" ? message : ""} ${typeof nested === "string" ? nested : ""}`)
    ? "0x"
    : undefined;
}

/** Says in a few words, without the endpoint's own text, what came back in place of an answer. */
export function describeFault(error: unknown): string {
  if (error instanceof RpcAnswerError) return `error ${error.rpcCode}`;
  const fault = faultOf(error);
  if (fault === "no_json") return "an answer that is not JSON";
  if (fault === "timeout") return "no answer in time";
  if (fault.startsWith("http_")) return `HTTP ${fault.slice("http_".length)}`;
  return networkFault(error) ?? fault.replaceAll("_", " ");
}

/**
 * Names why an exchange failed: this package's reason or the system's code, such as `timeout`, `http_429`, `no_json`,
 * `econnrefused`; never a message.
 */
export function faultOf(error: unknown): string {
  if (isTurnpikeError(error)) return error.reason ?? "no_answer";
  if (!(error instanceof Error)) return "no_answer";
  if (error instanceof SyntaxError) return "no_json";
  const { code } = { ...(error.cause as object), ...error } as { code?: unknown };
  return typeof code === "string" && /^\w{1,40}$/.test(code) ? code.toLowerCase() : "no_answer";
}
