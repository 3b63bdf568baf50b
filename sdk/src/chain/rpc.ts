/**
 * Calls a chain's JSON-RPC through a list of endpoints with failover. An outage is `Unavailable`, a revert the
 * contract's error.
 */
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import type { Interface } from "ethers/abi";
import { FetchRequest } from "ethers/utils";
import { ConfigError, type Hex, Unavailable } from "../protocol";
import { aList, aNumber, aText, callback, fieldsOf, listOf, wrongKind } from "../protocol/arguments";
import { decodeRevert } from "./errors";
import { describeFault, faultOf, RpcAnswerError, RpcEndpoint, type RpcPost, revertDataOf } from "./json-rpc";
import { requireRpc } from "./require-rpc";
import { type Endpoint, socketEndpoint } from "./socket-endpoint";
import { type Caller, NO_ANSWER } from "./views";

/** JSON-RPC to one chain, with fallbacks. */
export interface Rpc extends Caller {
  /** Calls `wake` when an endpoint pushes a new block; only endpoints with a socket do. @returns how to stop */
  onBlock(wake: () => void): () => void;
  /** Closes every connection. */
  close(): void;
}

/** The endpoints of the chain, and how long an answer may take. */
export interface RpcOptions {
  /** http(s):// or ws(s)://, tried in this order */
  readonly urls: string | readonly string[];
  readonly chainId: number;
  /** per endpoint and call; default 5,000. All endpoints together get twice as long */
  readonly timeoutMs?: number;
}

/** For how long an endpoint that did not answer is tried after the others. */
const REST_MS = 10_000;

/** A call ends after this many timeouts, however many endpoints there are. */
const MAX_TIMEOUTS = 2;

/**
 * Connects to a chain by one or several URLs, http or websocket.
 * @throws ConfigError for a URL that is neither
 */
export function connectRpc(options: RpcOptions): Rpc {
  const { urls, chainId, timeoutMs = 5_000 } = fieldsOf(options, "options");
  const list = typeof urls === "string" ? [urls] : urls;
  listOf(aText)(list, "urls");
  if (!Number.isSafeInteger(chainId) || chainId < 1)
    throw wrongKind(chainId, "chainId", "the chain's number, such as 8453");
  aNumber(timeoutMs, "timeoutMs");
  if (list.length === 0) throw new ConfigError("rpcUrl is empty: name at least one endpoint of the chain");
  const endpoints = list.map((url) => endpointOf(url, chainId, timeoutMs));
  const hosts = list.map((url) => new URL(url).host).join(", ");
  const resting = new Map<Endpoint, number>();

  /** Those that were silent a moment ago come last. */
  function inOrder(nowMs: number): readonly Endpoint[] {
    const isResting = (endpoint: Endpoint) => nowMs < (resting.get(endpoint) ?? 0);
    if (resting.size === 0) return endpoints;
    return [...endpoints.filter((each) => !isResting(each)), ...endpoints.filter(isResting)];
  }

  return {
    async send<T>(method: string, params: readonly unknown[]): Promise<T> {
      aText(method, "method");
      aList(params, "params");
      let last: unknown;
      let reverted = false;
      let timeouts = 0;
      const startedMs = performance.now();
      for (const endpoint of inOrder(startedMs)) {
        const leftMs = MAX_TIMEOUTS * timeoutMs - (performance.now() - startedMs);
        // Both: a timer may fire a little before the clock says so.
        if (leftMs <= 0 || timeouts === MAX_TIMEOUTS) break;
        try {
          const answer = await endpoint.send({ method, params }, Math.min(timeoutMs, leftMs));
          resting.delete(endpoint);
          return answer as T;
        } catch (error) {
          const revert = decodeRevert(error);
          if (revert) throw revert;
          if (faultOf(error) === "timeout") {
            resting.set(endpoint, performance.now() + REST_MS);
            timeouts++;
          }
          reverted ||= error instanceof RpcAnswerError && revertDataOf(error) !== undefined;
          last = error;
        }
      }
      // The endpoint's own text may hold its URL, and with it an API key: it goes no further than `cause`.
      const why = reverted ? { reason: NO_ANSWER } : { retryAfterSec: 2 };
      const message = `The chain cannot be asked at ${hosts} (${method}: ${describeFault(last)}).`;
      throw new Unavailable(message, { cause: last, details: { hosts }, ...why });
    },
    onBlock(wake) {
      const stops = endpoints.map((endpoint) => endpoint.onBlock?.(wake));
      return () => {
        for (const stop of stops) stop?.();
      };
    },
    close() {
      for (const endpoint of endpoints) endpoint.close();
    },
  };
}

function endpointOf(url: string, chainId: number, timeoutMs: number): Endpoint {
  const protocol = URL.canParse(url) ? new URL(url).protocol : "";
  if (protocol === "ws:" || protocol === "wss:") return socketEndpoint(url, chainId);
  if (protocol !== "http:" && protocol !== "https:") {
    throw new ConfigError("rpcUrl has an endpoint that is not an http, https, ws or wss URL");
  }
  const closed = new AbortController();
  const endpoint = new RpcEndpoint({ url, post, timeoutMs, signal: closed.signal });
  return {
    send: ({ method, params }, withinMs) => endpoint.request(method, params, withinMs),
    close: () => closed.abort(),
  };
}

// Each request over a connection of its own.
const OVER_OWN = FetchRequest.createGetUrlFunc({ agent: new HttpAgent({ keepAlive: false }) });

const OVER_OWN_TLS = FetchRequest.createGetUrlFunc({ agent: new HttpsAgent({ keepAlive: false }) });

/** Posts by the HTTP client of ethers: frameworks cache and slow down `fetch`. Asks once more when it is throttled. */
const post: RpcPost = async (url, { body, headers, signal, isRepeated }) => {
  const request = new FetchRequest(url);
  if (isRepeated) request.getUrlFunc = url.startsWith("https:") ? OVER_OWN_TLS : OVER_OWN;
  request.setThrottleParams({ maxAttempts: 2, slotInterval: 100 });
  for (const [name, value] of Object.entries(headers)) request.setHeader(name, value);
  request.body = body;
  const sent = request.send();
  signal.addEventListener("abort", () => request.cancel(), { once: true });
  const response = await sent;
  return { status: response.statusCode, text: response.hasBody() ? response.bodyText : "" };
};

/** @throws ConfigError when the endpoints serve another chain than the one configured */
export async function checkChainId(rpc: Rpc, chainId: number): Promise<void> {
  requireRpc(rpc);
  aNumber(chainId, "chainId");
  const actual = Number(await rpc.send<string>("eth_chainId", []));
  if (actual !== chainId) {
    throw new ConfigError(`network is chain ${chainId}, but rpcUrl serves chain ${actual}: correct one of them`);
  }
}

/** A call that changes nothing. */
export interface ViewCall {
  readonly to: Hex;
  readonly iface: Interface;
  readonly method: string;
  readonly args: readonly unknown[];
  /** default "latest" */
  readonly blockTag?: string;
}

/** @returns the decoded outputs. @throws Unavailable also when the answer cannot be decoded (no contract there) */
export async function callView(rpc: Rpc, call: ViewCall) {
  requireRpc(rpc);
  const { to, iface, method, args, blockTag = "latest" } = fieldsOf(call, "call");
  aText(to, "call.to");
  callback(fieldsOf(iface, "call.iface").encodeFunctionData, "call.iface.encodeFunctionData");
  aList(args, "call.args");
  const data = iface.encodeFunctionData(method, args);
  const answer = await rpc.send<Hex>("eth_call", [{ to, data }, blockTag]);
  try {
    return iface.decodeFunctionResult(method, answer);
  } catch (cause) {
    throw new Unavailable(`${method}() of ${to} gave no readable answer: is there such a contract on this chain?`, {
      cause,
      reason: NO_ANSWER,
    });
  }
}
