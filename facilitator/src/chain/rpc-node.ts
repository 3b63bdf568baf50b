/**
 * Sends batches of JSON-RPC calls to one node. Verifies from time to time that it serves the right chain, and knows
 * whether it rests after a failure.
 */
import type { Logger } from "pino";
import { postByFetch, type RpcAnswer, type RpcCall, RpcEndpoint } from "turnpike/chain";
import { Unavailable } from "turnpike/protocol";
import { STOPPING } from "../lib/stopping";
import { type NodeHealth, type NodeRecord, recordNode, type SeenHead } from "./node-health";
import { postKeptAlive } from "./rpc-post";

export interface RpcNodeOptions {
  readonly chainId: number;
  readonly log: Logger;
  readonly timeoutMs: number;
  readonly fetch?: typeof fetch;
  /** ends every pending and later request as `Unavailable` */
  readonly signal?: AbortSignal | undefined;
}

const REST_MS = 5_000;

/** The node behind a URL may change: a load balancer, a proxy, a replaced node. */
const CHECK_EVERY_MS = 10_000;

const callOf = (method: string, params: readonly unknown[] = []): RpcCall => ({ method, params });

export class RpcNode {
  readonly #endpoint: RpcEndpoint;
  readonly #options: RpcNodeOptions;
  readonly #record: NodeRecord;
  #chain: "unchecked" | "right" | "wrong" = "unchecked";
  /** monotonic milliseconds after which it must name its chain again */
  #checkAgainAtMs = 0;
  /** monotonic milliseconds until which the other nodes are asked first */
  #restUntilMs = 0;

  /** @param index position in RPC_URLS, from 0 */
  constructor(url: string, index: number, options: RpcNodeOptions) {
    const { fetch, timeoutMs, signal } = options;
    this.#endpoint = new RpcEndpoint({ url, post: fetch ? postByFetch(fetch) : postKeptAlive, timeoutMs, signal });
    this.#options = options;
    this.#record = recordNode(url, index, () => performance.now());
  }

  get servesOtherChain(): boolean {
    return this.#chain === "wrong";
  }

  isResting(nowMs: number): boolean {
    return this.#restUntilMs > nowMs;
  }

  get seenHead(): SeenHead | undefined {
    return this.servesOtherChain ? undefined : this.#record.seenHead();
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
      const answers = await this.#endpoint.exchange(batch);
      this.#record.answered(performance.now() - askedMs);
      return answers;
    } catch (error) {
      if (this.#options.signal?.aborted) throw stoppingError();
      this.#record.failed(error);
      throw error;
    }
  }
}

export const stoppingError = (): Unavailable =>
  new Unavailable("The service is stopping; send the request again.", { reason: STOPPING, retryAfterSec: 2 });
