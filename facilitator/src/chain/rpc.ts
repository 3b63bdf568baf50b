/**
 * Sends JSON-RPC over HTTP to several nodes: prefers the first, and asks the others when it does not answer. Batches
 * the requests of one event-loop turn. Independent of the methods; a request without an answer is `Unavailable`.
 */
import type { Logger } from "pino";
import { ConfigError, Unavailable } from "turnpike/protocol";
import { Agent, request } from "undici";
import { compareHeads, type NodeHealth, type NodeRecord, recordNode } from "./node-health";

/** An error that a node answered with. */
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
  /** Returns the results of all nodes that serve this chain and answer soon; each node is asked separately. */
  requestEach(method: string, params: readonly unknown[]): Promise<unknown[]>;
  /** @throws ConfigError when every node that answers serves another chain */
  checkChain(): Promise<void>;
  /** Returns the known health of each node, and refreshes it in the background when it is old. */
  nodes(): readonly NodeHealth[];
  /** Returns the health of each node after asking them all, or after a short timeout. */
  lookAtNodes(): Promise<readonly NodeHealth[]>;
}

export interface RpcOptions {
  readonly urls: readonly string[];
  readonly chainId: number;
  readonly timeoutMs: number;
  readonly log: Logger;
  readonly fetch?: typeof fetch;
  /** ends every pending and later request as `Unavailable` */
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
  /** monotonic milliseconds after which it must name its chain again */
  checkAgainAtMs: number;
  /** monotonic milliseconds until which the other nodes are asked first */
  restUntilMs: number;
}

const MAX_TOGETHER = 50;

const REST_MS = 5_000;

/** The node behind a URL may change: a load balancer, a proxy, a replaced node. */
const CHECK_EVERY_MS = 10_000;

/** How often unused nodes are checked, and how long a caller waits for it. */
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
        throw new Unavailable("a node's answer to a batch is incomplete", { reason: "incomplete" });
      }
      if (answer.error?.code === LIMIT_EXCEEDED)
        throw new Unavailable("a node's request limit is exceeded", { reason: "limit_exceeded" });
      return answer;
    });
  }

  /**
   * Sends a batch, and asks for the chain id with it from time to time.
   * @returns the answers, or undefined when this endpoint serves another chain
   */
  async function postChecked(endpoint: Endpoint, batch: readonly Pending[]): Promise<Answer[] | undefined> {
    if (endpoint.chain === "right" && performance.now() < endpoint.checkAgainAtMs) return post(endpoint, batch);
    const [chainIdAnswer, ...answers] = await post(endpoint, [question("eth_chainId"), ...batch]);
    if (typeof chainIdAnswer?.result !== "string") throw new Unavailable("a node did not return its chain id");
    const chainId = Number(chainIdAnswer.result);
    endpoint.chain = chainId === options.chainId ? "right" : "wrong";
    endpoint.checkAgainAtMs = performance.now() + CHECK_EVERY_MS;
    if (endpoint.chain === "right") return answers;
    options.log.error({ chainId, expected: options.chainId }, "a node serves another chain");
    endpoint.restUntilMs = performance.now() + REST_MS;
    return undefined;
  }

  /** Tries twice, to tell a kept-alive connection that was closed from a node that is down. */
  const checkTwice = (endpoint: Endpoint): Promise<Answer[] | undefined> =>
    postChecked(endpoint, []).catch(() => postChecked(endpoint, []));

  let lookedMs = Number.NEGATIVE_INFINITY;
  let looking: Promise<unknown> | undefined;

  /** Checks all nodes. A standby node has no other traffic that would show its health. */
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
      // The failure is recorded in the node's health.
    }
  }

  const known = (): readonly NodeHealth[] =>
    compareHeads(endpoints.map(({ seen, chain }) => seen.tell(chain === "wrong")));

  async function askOne(endpoint: Endpoint, method: string, params: readonly unknown[]): Promise<unknown[]> {
    try {
      const [answer] = (await postChecked(endpoint, [{ ...question(method), params }])) ?? [];
      return answer && !answer.error ? [answer.result] : [];
    } catch {
      // The failure is recorded in the node's health.
      return [];
    }
  }

  async function exchange(batch: readonly Pending[]): Promise<Answer[]> {
    const nowMs = performance.now();
    const rested = [...endpoints].sort((a, b) => Number(a.restUntilMs > nowMs) - Number(b.restUntilMs > nowMs));
    // Each node is tried twice: the other side may have just closed a kept-alive connection. Repeating is safe for
    // every request sent here, because a transaction's bytes can be mined only once.
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

/** Returns the result of `work`, or `otherwise` after a short timeout. */
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

/** Posts with the client below `fetch`, at a third of its cost, unless a `fetch` is given. */
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

/** Never contains a URL, which may hold an API key. */
function reasonOf(error: unknown): string {
  if (error instanceof Unavailable) return error.message;
  return error instanceof Error ? error.name : "unknown";
}
