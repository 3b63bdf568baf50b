import { Unavailable } from "../protocol";
import { atMost, type Deferred, deferred } from "../protocol/exchange";
import { type RpcAnswer, RpcAnswerError, type RpcCall, RpcEndpoint, resultOf } from "./json-rpc";

export interface Endpoint {
  /** @throws RpcAnswerError when the endpoint answers with an error; Unavailable with reason `timeout` when it is late */
  send(call: RpcCall, withinMs: number): Promise<unknown>;
  /** of endpoints that push */
  onBlock?(wake: () => void): () => void;
  close(): void;
}

const loadProviders = () => import("ethers/providers");

type Providers = Awaited<ReturnType<typeof loadProviders>>;

/** Loads ethers' providers when a socket is first used: most programs ask by HTTP, and they are half of ethers. */
export function socketEndpoint(url: string, chainId: number): Endpoint {
  let endpoint: Promise<Endpoint> | undefined;
  const open = () => {
    endpoint ??= loadProviders().then((providers) => openEndpoint(url, chainId, providers));
    return endpoint;
  };
  return {
    send: async (call, withinMs) => (await open()).send(call, withinMs),
    onBlock(wake) {
      let stop: (() => void) | undefined;
      let isStopped = false;
      open().then(
        (socket) => {
          if (!isStopped) stop = socket.onBlock?.(wake);
        },
        // A call says why ethers cannot be loaded.
        () => undefined,
      );
      return () => {
        isStopped = true;
        stop?.();
      };
    },
    close() {
      endpoint?.then(
        (socket) => socket.close(),
        () => undefined,
      );
    },
  };
}

const RECONNECT_MS = 1_000;

/** Reopens a dropped socket, at the next call, or soon when there are block listeners. */
function openEndpoint(url: string, chainId: number, { Network, WebSocketProvider }: Providers): Endpoint {
  const network = Network.from(chainId);
  const wakes = new Set<() => void>();
  let current:
    | { readonly provider: InstanceType<Providers["WebSocketProvider"]>; readonly dropped: Deferred<never> }
    | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  function opened() {
    if (current) return current;
    const provider = new WebSocketProvider(url, network, { staticNetwork: network });
    const made = { provider, dropped: deferred<never>() };
    // Without a call under way nobody awaits it.
    made.dropped.promise.catch(() => undefined);
    const socket = provider.websocket as { onclose?: unknown; onerror?: unknown };
    socket.onclose = () => drop();
    socket.onerror = (event: { readonly error?: unknown }) => drop(event.error);
    for (const wake of wakes) void provider.on("block", wake);
    current = made;
    return made;

    function drop(cause?: unknown): void {
      if (current !== made) return;
      current = undefined;
      // ethers leaves the calls of a closed socket waiting.
      made.dropped.reject(Object.assign(new Error("the socket was closed", { cause }), { code: "ECONNRESET" }));
      provider.destroy().catch(() => undefined);
      reopenSoon();
    }
  }

  function reopenSoon(): void {
    if (closed || wakes.size === 0) return;
    timer = setTimeout(() => {
      opened();
      // Blocks may have come without a connection.
      for (const wake of wakes) wake();
    }, RECONNECT_MS);
    timer.unref();
  }

  async function send(call: RpcCall, isRepeated = false): Promise<unknown> {
    const { provider, dropped } = opened();
    try {
      return await Promise.race([dropped.promise, provider.send(call.method, [...call.params]).catch(throwAnswer)]);
    } catch (error) {
      const isDropped = !closed && current?.provider !== provider && !(error instanceof RpcAnswerError);
      if (!isDropped || isRepeated || !RpcEndpoint.isRead(call)) throw error;
      return send(call, true);
    }
  }

  return {
    send: (call, withinMs) => atMost(withinMs, send(call), throwLate),
    onBlock(wake) {
      wakes.add(wake);
      void opened().provider.on("block", wake);
      return () => {
        wakes.delete(wake);
        // ethers rejects where the subscription was not confirmed before the socket went: there is nothing to end then.
        current?.provider.off("block", wake).catch(() => undefined);
      };
    },
    close() {
      closed = true;
      clearTimeout(timer);
      const last = current;
      current = undefined;
      last?.dropped.reject(new Error("closed"));
      last?.provider.destroy().catch(() => undefined);
    },
  };
}

function throwLate(): never {
  throw new Unavailable("a node did not answer in time", { reason: "timeout" });
}

/** ethers keeps the error that an endpoint answered with in `error` or `info.error`. */
function throwAnswer(cause: { readonly error?: RpcAnswer["error"]; readonly info?: RpcAnswer }): never {
  const error = cause.info?.error ?? cause.error;
  if (error?.code === undefined) throw cause;
  return resultOf({ error }) as never;
}
