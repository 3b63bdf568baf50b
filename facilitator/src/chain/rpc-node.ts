/**
 * Sends batches of JSON-RPC calls to one node. Verifies from time to time that it serves the right chain, and knows
 * whether it rests after a failure.
 */
import type { Logger } from "pino";
import { Unavailable } from "turnpike/protocol";
import { type NodeHealth, type NodeRecord, recordNode } from "./node-health";
import { postJson, stoppingError, type TransportOptions } from "./rpc-transport";

export interface RpcCall {
  readonly method: string;
  readonly params: readonly unknown[];
}

export interface RpcAnswer {
  readonly id?: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code?: unknown; readonly message?: unknown; readonly data?: unknown };
}

export interface RpcNodeOptions extends TransportOptions {
  readonly chainId: number;
  readonly log: Logger;
}

const REST_MS = 5_000;

/** The node behind a URL may change: a load balancer, a proxy, a replaced node. */
const CHECK_EVERY_MS = 10_000;

/** "limit exceeded": another node may answer */
const LIMIT_EXCEEDED = -32_005;

const callOf = (method: string, params: readonly unknown[] = []): RpcCall => ({ method, params });

export class RpcNode {
  readonly #url: string;
  readonly #options: RpcNodeOptions;
  readonly #record: NodeRecord;
  #chain: "unchecked" | "right" | "wrong" = "unchecked";
  /** monotonic milliseconds after which it must name its chain again */
  #checkAgainAtMs = 0;
  /** monotonic milliseconds until which the other nodes are asked first */
  #restUntilMs = 0;

  /** @param index position in RPC_URLS, from 0 */
  constructor(url: string, index: number, options: RpcNodeOptions) {
    this.#url = url;
    this.#options = options;
    this.#record = recordNode(url, index, () => performance.now());
  }

  get servesOtherChain(): boolean {
    return this.#chain === "wrong";
  }

  isResting(nowMs: number): boolean {
    return this.#restUntilMs > nowMs;
  }

  health(): NodeHealth {
    return this.#record.health(this.servesOtherChain);
  }

  /** Makes callers ask the other nodes first for a while, and this one for its chain again. */
  rest(): void {
    this.#restUntilMs = performance.now() + REST_MS;
    this.#checkAgainAtMs = 0;
  }

  /**
   * Sends a batch, and asks for the chain id with it from time to time.
   * @returns the answers, or undefined when this node serves another chain
   */
  async send(batch: readonly RpcCall[]): Promise<RpcAnswer[] | undefined> {
    const { chainId: expected, log } = this.#options;
    if (this.#chain === "right" && performance.now() < this.#checkAgainAtMs) return this.#post(batch);
    const [chainIdAnswer, ...answers] = await this.#post([callOf("eth_chainId"), ...batch]);
    if (typeof chainIdAnswer?.result !== "string") throw new Unavailable("a node did not return its chain id");
    const chainId = Number(chainIdAnswer.result);
    this.#chain = chainId === expected ? "right" : "wrong";
    this.#checkAgainAtMs = performance.now() + CHECK_EVERY_MS;
    if (this.#chain === "right") return answers;
    log.error({ chainId, expected }, "a node serves another chain");
    this.#restUntilMs = performance.now() + REST_MS;
    return undefined;
  }

  /** Tries twice: the first failure may be a kept-alive connection that was closed. */
  check(): Promise<RpcAnswer[] | undefined> {
    return this.send([]).catch(() => this.send([]));
  }

  /** Asks for the newest block, for the node's health. */
  async readHead(): Promise<void> {
    const [head] = await this.ask("eth_blockNumber");
    if (typeof head === "string") this.#record.recordHead(Number(head));
  }

  /** Asks this node alone. @returns its result in a list, which is empty when it returned none */
  async ask(method: string, params?: readonly unknown[]): Promise<unknown[]> {
    try {
      const [answer] = (await this.send([callOf(method, params)])) ?? [];
      return answer && !answer.error ? [answer.result] : [];
    } catch {
      // The failure is recorded in the node's health.
      return [];
    }
  }

  async #post(batch: readonly RpcCall[]): Promise<RpcAnswer[]> {
    const askedMs = performance.now();
    try {
      const answers = await this.#postBatch(batch);
      this.#record.answered(performance.now() - askedMs);
      return answers;
    } catch (error) {
      if (this.#options.signal?.aborted) throw stoppingError();
      this.#record.failed(error);
      throw error;
    }
  }

  async #postBatch(batch: readonly RpcCall[]): Promise<RpcAnswer[]> {
    const calls = batch.map(({ method, params }, id) => ({ jsonrpc: "2.0", id, method, params }));
    const body = await postJson<RpcAnswer | RpcAnswer[]>(
      this.#url,
      JSON.stringify(calls.length === 1 ? calls[0] : calls),
      this.#options,
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
}
