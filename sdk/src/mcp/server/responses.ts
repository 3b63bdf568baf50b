/** Watches the response of each HTTP request that a transport handles: whether its client still reads it. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { restOf } from "../../gate/replay/recorder";

/** A response of Node, as far as it is watched. */
interface NodeResponse {
  readonly destroyed?: unknown;
  readonly writableFinished?: unknown;
  once?(event: "close", listener: () => void): unknown;
}

type Handle = (request: unknown, ...rest: unknown[]) => Promise<unknown>;

interface Watched {
  readonly transport: Transport;
  readonly isGone: () => boolean;
}

const watched = new AsyncLocalStorage<Watched>();

/** Watches the responses of a transport with `handleRequest`: of Node, or of the Fetch standard. */
export function followResponses(transport: Transport): void {
  const http = transport as Transport & { handleRequest?: Handle };
  const handle = http.handleRequest?.bind(http);
  if (!handle) return;
  http.handleRequest = async (request, ...rest) => {
    if (isFetched(request)) return handleFetched(transport, request, () => handle(request, ...rest));
    const isGone = goneFrom(rest[0] as NodeResponse | undefined);
    return watched.run({ transport, isGone }, () => handle(request, ...rest));
  };
}

function goneFrom(response: NodeResponse | undefined): () => boolean {
  let isGone = response?.destroyed === true;
  // Asked when it closes: what is written later counts as finished.
  response?.once?.("close", () => {
    isGone = response.writableFinished === false;
  });
  return () => isGone;
}

/** Of any copy of the Fetch classes. */
const isFetched = (request: unknown): request is Request =>
  typeof (request as Partial<Request> | undefined)?.headers?.get === "function";

async function handleFetched(transport: Transport, request: Partial<Request>, handle: () => Promise<unknown>) {
  let isCancelled = false;
  const isGone = () => isCancelled || request.signal?.aborted === true;
  const response = (await watched.run({ transport, isGone }, handle)) as Response;
  if (!response.body) return response;
  const reader = response.body.getReader();
  const cancel = (reason: unknown) => {
    isCancelled = true;
    return reader.cancel(reason);
  };
  return new Response(restOf({ read: () => reader.read(), cancel }, []), response);
}

/** Returns whether the client of the request that is handled now has closed its connection; never over other transports. */
export function responseOf(transport: Transport): () => boolean {
  const current = watched.getStore();
  return current?.transport === transport ? current.isGone : () => false;
}
