/**
 * Sends JSON-RPC over HTTP to several nodes. Batches the requests of one event-loop turn. Independent of the methods; a
 * request without an answer is `Unavailable`.
 */
import { type RpcAnswer, type RpcCall, resultOf } from "turnpike/chain";
import { activeSpan } from "../lib/active-span";
import type { NodeHealth } from "./node-health";
import { RpcNodes, type RpcNodesOptions } from "./rpc-nodes";

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
  refreshNodes(): Promise<readonly NodeHealth[]>;
}

interface PendingCall extends RpcCall {
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

const MAX_TOGETHER = 50;

/** Lets a call be a part of the active span, by its method alone. */
function asPartOfSpan<T>(method: string, call: () => Promise<T>): Promise<T> {
  const ended = activeSpan()?.begin(method, { "rpc.system": "jsonrpc", "rpc.method": method });
  if (!ended) return call();
  return call().then(
    (answer) => {
      ended();
      return answer;
    },
    (error: unknown) => {
      ended(error);
      throw error;
    },
  );
}

export function createRpc(options: RpcNodesOptions): Rpc {
  const nodes = new RpcNodes(options);
  let queue: PendingCall[] = [];

  async function flush(batch: readonly PendingCall[]): Promise<void> {
    try {
      const answers = await nodes.exchange(batch);
      batch.forEach((pending, index) => {
        try {
          pending.resolve(resultOf(answers[index] as RpcAnswer));
        } catch (error) {
          pending.reject(error);
        }
      });
    } catch (error) {
      for (const pending of batch) pending.reject(error);
    }
  }

  return {
    request: (method, params) =>
      asPartOfSpan(
        method,
        () =>
          new Promise((resolve, reject) => {
            queue.push({ method, params, resolve, reject });
            if (queue.length > 1) return;
            setImmediate(() => {
              const all = queue;
              queue = [];
              for (let start = 0; start < all.length; start += MAX_TOGETHER) {
                void flush(all.slice(start, start + MAX_TOGETHER));
              }
            });
          }),
      ),
    requestEach: (method, params) => asPartOfSpan(method, () => nodes.askEach(method, params)),
    checkChain: () => nodes.check(),
    nodes: () => nodes.health(),
    refreshNodes: () => nodes.freshHealth(),
  };
}
