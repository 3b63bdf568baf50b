/**
 * JSON-RPC over HTTP with several nodes: the first is preferred, the others are asked when it does not answer. Requests
 * of one turn of the event loop travel together. Knows nothing of what is asked; an unanswered question is `Unavailable`.
 */
import type { Logger } from "pino";
import { ConfigError, Unavailable } from "turnpike/protocol";
import { Agent, request } from "undici";
import { compareHeads, type NodeHealth, type NodeRecord, recordNode } from "./node-health";

/** The node answered, with an error. */
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

export interface Rpc {
  /**
   * @throws RpcAnswerError when a node answered with an error
   * @throws Unavailable when no node answered
   */
  request(method: string, params: readonly unknown[]): Promise<unknown>;
  /** The results of all nodes that serve this chain and answer soon, each asked by itself. */
  requestEach(method: string, params: readonly unknown[]): Promise<unknown[]>;
  /** @throws ConfigError when every node that answers serves another chain */
  checkChain(): Promise<void>;
  /** How each node does as far as is known; asks them all in the background where that is old. */
  nodes(): readonly NodeHealth[];
  /** The same, when all were asked, or a moment later. */
  lookAtNodes(): Promise<readonly NodeHealth[]>;
}

export interface RpcOptions {
  readonly urls: readonly string[];
  readonly chainId: number;
  readonly timeoutMs: number;
  readonly log: Logger;
  readonly fetch?: typeof fetch;
  /** ends every request that waits for a node, and each later one, as `Unavailable` */
  readonly signal?: AbortSignal | undefined;
}

interface Pending {
  readonly method: string;
  readonly params: readonly unknown[];
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

interface Answer {
  readonly id?: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code?: unknown; readonly message?: unknown; readonly data?: unknown };
}

interface Endpoint {
  readonly url: string;
  readonly seen: NodeRecord;
  chain: "unchecked" | "right" | "wrong";
  /** monotonic milliseconds from which on it has to name its chain again */
  checkAgainAtMs: number;
  /** monotonic milliseconds before which the others are asked first */
  restUntilMs: number;
}

const MAX_TOGETHER = 50;

const REST_MS = 5_000;

/** What stands behind a URL may change: a balancer, a proxy, a node that was set up anew. */
const CHECK_EVERY_MS = 10_000;

/** What nodes nobody asked anything are known by, and how long whoever wants to know waits for it. */
const LOOK_EVERY_MS = 5_000;

const LOOK_MS = 2_000;

const stoppingError = (): Unavailable =>
  new Unavailable("The service is stopping; send the request again.", { reason: "stopping", retryAfterSec: 2 });

/** "limit exceeded": another node may answer */
const LIMIT_EXCEEDED = -32_005;

export function createRpc(options: RpcOptions): Rpc {
  const endpoints: Endpoint[] = options.urls.map((url, index) => ({
    url,
    seen: recordNode(url, index, () => performance.now()),
    chain: "unchecked",
    checkAgainAtMs: 0,
    restUntilMs: 0,
  }));
  let queue: Pending[] = [];
  const isEnded = (): boolean => options.signal?.aborted === true;

  async function post(endpoint: Endpoint, batch: readonly Pending[]): Promise<Answer[]> {
    const askedMs = performance.now();
    try {
      const answers = await postBatch(endpoint, batch);
      endpoint.seen.answered(performance.now() - askedMs);
      return answers;
    } catch (error) {
      if (isEnded()) throw stoppingError();
      endpoint.seen.failed(error);
      throw error;
    }
  }

  async function postBatch(endpoint: Endpoint, batch: readonly Pending[]): Promise<Answer[]> {
    const calls = batch.map(({ method, params }, id) => ({ jsonrpc: "2.0", id, method, params }));
    const body = await postJson<Answer | Answer[]>(
      endpoint.url,
      JSON.stringify(calls.length === 1 ? calls[0] : calls),
      options,
    );
    const byId = new Map((Array.isArray(body) ? body : [body]).map((answer) => [answer?.id, answer]));
    return batch.map((_, id) => {
      const answer = byId.get(id);
      if (!answer || (answer.error === undefined && answer.result === undefined)) {
        throw new Unavailable("a node gave no answer to one of several questions", { reason: "incomplete" });
      }
      if (answer.error?.code === LIMIT_EXCEEDED)
        throw new Unavailable("a node's request limit is exceeded", { reason: "limit_exceeded" });
      return answer;
    });
  }

  /** @returns the answers, if this endpoint serves our chain; it is asked so together with the questions, now and then */
  async function postChecked(endpoint: Endpoint, batch: readonly Pending[]): Promise<Answer[] | undefined> {
    if (endpoint.chain === "right" && performance.now() < endpoint.checkAgainAtMs) return post(endpoint, batch);
    const [told, ...answers] = await post(endpoint, [question("eth_chainId"), ...batch]);
    if (typeof told?.result !== "string") throw new Unavailable("a node does not name its chain");
    const chainId = Number(told.result);
    endpoint.chain = chainId === options.chainId ? "right" : "wrong";
    endpoint.checkAgainAtMs = performance.now() + CHECK_EVERY_MS;
    if (endpoint.chain === "right") return answers;
    options.log.error({ chainId, expected: options.chainId }, "a node serves another chain");
    endpoint.restUntilMs = performance.now() + REST_MS;
    return undefined;
  }

  /** A connection that was kept open may be closed by now: a second question tells that from a node that is away. */
  const checkTwice = (endpoint: Endpoint): Promise<Answer[] | undefined> =>
    postChecked(endpoint, []).catch(() => postChecked(endpoint, []));

  let lookedMs = Number.NEGATIVE_INFINITY;
  let looking: Promise<unknown> | undefined;

  /** A node that is only there for when another fails is known by nothing else. */
  function look(): Promise<unknown> {
    if (!looking && performance.now() - lookedMs >= LOOK_EVERY_MS) {
      looking = Promise.all(endpoints.map(askHead)).finally(() => {
        lookedMs = performance.now();
        looking = undefined;
      });
    }
    return looking ?? Promise.resolve();
  }

  async function askHead(endpoint: Endpoint): Promise<void> {
    try {
      const [answer] = (await postChecked(endpoint, [question("eth_blockNumber")])) ?? [];
      if (typeof answer?.result === "string") endpoint.seen.headIs(Number(answer.result));
    } catch {
      // That it failed is what was to be known, and is written down.
    }
  }

  const known = (): readonly NodeHealth[] =>
    compareHeads(endpoints.map(({ seen, chain }) => seen.tell(chain === "wrong")));

  async function askOne(endpoint: Endpoint, method: string, params: readonly unknown[]): Promise<unknown[]> {
    try {
      const [answer] = (await postChecked(endpoint, [{ ...question(method), params }])) ?? [];
      return answer && !answer.error ? [answer.result] : [];
    } catch {
      // Its record says why.
      return [];
    }
  }

  async function exchange(batch: readonly Pending[]): Promise<Answer[]> {
    const nowMs = performance.now();
    const rested = [...endpoints].sort((a, b) => Number(a.restUntilMs > nowMs) - Number(b.restUntilMs > nowMs));
    // Each a second time: a connection that was kept open may have been closed by the other side just now. Asking twice
    // is safe for everything that is asked here; a transaction's bytes can land but once.
    const order = [...rested, ...rested];
    let cause: unknown;
    for (const endpoint of order) {
      try {
        const answers = await postChecked(endpoint, batch);
        if (answers) return answers;
      } catch (error) {
        if (isEnded()) throw stoppingError();
        cause = error;
        endpoint.restUntilMs = performance.now() + REST_MS;
        endpoint.checkAgainAtMs = 0;
        options.log.warn({ reason: reasonOf(error), method: batch[0]?.method }, "a node did not answer");
      }
    }
    throw new Unavailable("the chain cannot be reached", { cause, retryAfterSec: 2 });
  }

  async function flush(batch: readonly Pending[]): Promise<void> {
    try {
      const answers = await exchange(batch);
      batch.forEach((pending, index) => {
        const { error, result } = answers[index] as Answer;
        if (error) pending.reject(new RpcAnswerError(Number(error.code ?? 0), String(error.message ?? ""), error.data));
        else pending.resolve(result);
      });
    } catch (error) {
      for (const pending of batch) pending.reject(error);
    }
  }

  return {
    request(method, params) {
      return new Promise((resolve, reject) => {
        queue.push({ method, params, resolve, reject });
        if (queue.length > 1) return;
        setImmediate(() => {
          const all = queue;
          queue = [];
          for (let start = 0; start < all.length; start += MAX_TOGETHER) {
            void flush(all.slice(start, start + MAX_TOGETHER));
          }
        });
      });
    },
    async requestEach(method, params) {
      const results = endpoints.map((endpoint) => orSoon(askOne(endpoint, method, params), []));
      return (await Promise.all(results)).flat();
    },
    async checkChain() {
      const checks = await Promise.allSettled(endpoints.map(checkTwice));
      if (checks.some((check) => check.status === "fulfilled" && check.value)) return;
      if (endpoints.some((endpoint) => endpoint.chain === "wrong")) {
        throw new ConfigError(`RPC_URLS serve another chain than CHAIN_ID ${options.chainId}`);
      }
      throw new Unavailable("RPC_URLS do not answer");
    },
    nodes() {
      void look();
      return known();
    },
    async lookAtNodes() {
      await orSoon(look(), undefined);
      return known();
    },
  };
}

/** What `work` resolves to, or `otherwise` after a moment. */
async function orSoon<T>(work: Promise<T>, otherwise: T): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<T>((resolve) => {
    timer = setTimeout(() => resolve(otherwise), LOOK_MS);
  });
  const result = await Promise.race([work, tooLate]);
  clearTimeout(timer);
  return result;
}

const question = (method: string): Pending => ({
  method,
  params: [],
  resolve: () => undefined,
  reject: () => undefined,
});

const CONNECTIONS = 32;

const connections = new Agent({ connections: CONNECTIONS, keepAliveTimeout: 4_000 });

/** By the client below `fetch`, at a third of its price, unless another way is handed in. */
async function postJson<T>(url: string, body: string, { fetch, timeoutMs, signal }: RpcOptions): Promise<T> {
  const headers = { "content-type": "application/json" };
  const late = new AbortController();
  const cut = (): void => late.abort();
  const timer = setTimeout(cut, timeoutMs);
  signal?.addEventListener("abort", cut, { once: true });
  try {
    if (signal?.aborted) throw stoppingError();
    if (fetch) {
      const response = await fetch(url, { method: "POST", headers, body, signal: late.signal });
      if (!response.ok) throw httpFault(response.status);
      return (await response.json()) as T;
    }
    const response = await request(url, {
      method: "POST",
      headers,
      body,
      signal: late.signal,
      dispatcher: connections,
    });
    const text = await response.body.text();
    if (response.statusCode !== 200) throw httpFault(response.statusCode);
    return JSON.parse(text) as T;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", cut);
  }
}

const httpFault = (status: number): Unavailable =>
  new Unavailable(`a node answered with HTTP ${status}`, { reason: `http_${status}` });

/** Without URLs: they may hold an API key. */
function reasonOf(error: unknown): string {
  if (error instanceof Unavailable) return error.message;
  return error instanceof Error ? error.name : "unknown";
}
