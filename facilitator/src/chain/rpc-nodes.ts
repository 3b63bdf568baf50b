/**
 * Chooses among the nodes of RPC_URLS: prefers the first, and asks the others when it does not answer, or when its newest
 * block stays the same while another's grows.
 */
import type { RpcAnswer, RpcCall } from "turnpike/chain";
import { ConfigError, Unavailable } from "turnpike/protocol";
import { compareHeads, isStale, type NodeHealth } from "./node-health";
import { RpcNode, type RpcNodeOptions, stoppingError } from "./rpc-node";

export interface RpcNodesOptions extends RpcNodeOptions {
  readonly urls: readonly string[];
}

/** How often unused nodes are checked, and how long a caller waits for it. */
const REFRESH_EVERY_MS = 5_000;

const REFRESH_WAIT_MS = 2_000;

export class RpcNodes {
  readonly #options: RpcNodesOptions;
  readonly #nodes: readonly RpcNode[];
  #readMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<unknown> | undefined;
  #stale: ReadonlySet<RpcNode> = new Set();

  constructor(options: RpcNodesOptions) {
    this.#options = options;
    this.#nodes = options.urls.map((url, index) => new RpcNode(url, index, options));
  }

  /** Sends a batch to the first node that answers. @throws Unavailable when none does */
  async exchange(batch: readonly RpcCall[]): Promise<RpcAnswer[]> {
    const { signal, log } = this.#options;
    const nowMs = performance.now();
    if (this.#nodes.length > 1) void this.#readHeads();
    const placeOf = (node: RpcNode): number => (node.isResting(nowMs) ? 2 : this.#stale.has(node) ? 1 : 0);
    const rested = [...this.#nodes].sort((a, b) => placeOf(a) - placeOf(b));
    // Each node is tried twice: the other side may have just closed a kept-alive connection. Repeating is safe for
    // every request sent here, because a transaction's bytes can be mined only once.
    const order = [...rested, ...rested];
    let cause: unknown;
    for (const node of order) {
      try {
        const answers = await node.send(batch);
        if (answers) return answers;
      } catch (error) {
        if (signal?.aborted) throw stoppingError();
        cause = error;
        node.rest();
        log.warn({ reason: reasonOf(error), method: batch[0]?.method }, "a node did not answer");
      }
    }
    throw new Unavailable("the chain cannot be reached", { cause, retryAfterSec: 2 });
  }

  async askEach(method: string, params: readonly unknown[]): Promise<unknown[]> {
    const results = this.#nodes.map((node) => orSoon(node.ask(method, params), []));
    return (await Promise.all(results)).flat();
  }

  /** @throws ConfigError when every node that answers serves another chain */
  async check(): Promise<void> {
    const checks = await Promise.allSettled(this.#nodes.map((node) => node.send([])));
    if (checks.some((check) => check.status === "fulfilled" && check.value)) return;
    if (this.#nodes.some((node) => node.servesOtherChain)) {
      throw new ConfigError(`RPC_URLS serve another chain than CHAIN_ID ${this.#options.chainId}`);
    }
    throw new Unavailable("RPC_URLS do not answer");
  }

  /** Returns the known health of each node, and refreshes it in the background when it is old. */
  health(): readonly NodeHealth[] {
    void this.#readHeads();
    return this.#known();
  }

  /** Returns the health of each node after asking them all, or after a short timeout. */
  async freshHealth(): Promise<readonly NodeHealth[]> {
    await orSoon(this.#readHeads(), undefined);
    return this.#known();
  }

  #known(): readonly NodeHealth[] {
    return compareHeads(this.#nodes.map((node) => node.health()));
  }

  /** Checks all nodes. A standby node has no other traffic that would show its health. */
  #readHeads(): Promise<unknown> {
    if (!this.#reading && performance.now() - this.#readMs >= REFRESH_EVERY_MS) {
      this.#reading = Promise.all(this.#nodes.map((node) => node.readHead())).finally(() => {
        this.#readMs = performance.now();
        this.#reading = undefined;
        this.#findStale();
      });
    }
    return this.#reading ?? Promise.resolve();
  }

  #findStale(): void {
    const nowMs = performance.now();
    const heads = this.#nodes.map((node) => node.seenHead);
    const before = this.#stale;
    this.#stale = new Set(this.#nodes.filter((node) => isStale(node.seenHead, heads, nowMs)));
    for (const [index, node] of this.#nodes.entries()) {
      if (this.#stale.has(node) && !before.has(node))
        this.#options.log.warn(
          { node: index + 1, head: node.seenHead?.number },
          "a node's newest block stays the same while another's grows: the others are asked first",
        );
    }
  }
}

/** Returns the result of `work`, or `otherwise` after a short timeout. */
async function orSoon<T>(work: Promise<T>, otherwise: T): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<T>((resolve) => {
    timer = setTimeout(() => resolve(otherwise), REFRESH_WAIT_MS);
  });
  const result = await Promise.race([work, tooLate]);
  clearTimeout(timer);
  return result;
}

/** Never contains a URL, which may hold an API key. */
function reasonOf(error: unknown): string {
  if (error instanceof Unavailable) return error.message;
  return error instanceof Error ? error.name : "unknown";
}
