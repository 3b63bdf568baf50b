/** Watches each HTTP request that a transport handles: how many messages it brings, and whether its client still reads. */
import { AsyncLocalStorage } from "node:async_hooks";
import { restOf } from "../../gate/replay/fetch-recorder";
import type { SdkTransport } from "./sdk-call";

/** A response of Node, as far as it is watched. */
interface NodeResponse {
  readonly destroyed?: unknown;
  readonly writableFinished?: unknown;
  once?(event: "close", listener: () => void): unknown;
}

type Handle = (request: unknown, ...rest: unknown[]) => Promise<unknown>;

interface Watched {
  readonly transport: SdkTransport;
  readonly isGone: () => boolean;
  /** A transport delivers the messages of one request together. */
  messages: number;
}

const watched = new AsyncLocalStorage<Watched>();

/** Watches the responses of a transport with `handleRequest`: of Node, or of the Fetch standard. */
export function followResponses(transport: SdkTransport): void {
  const http = transport as SdkTransport & { handleRequest?: Handle };
  const handle = http.handleRequest?.bind(http);
  if (!handle) return;
  http.handleRequest = async (request, ...rest) => {
    if (isFetched(request)) return handleFetched(transport, request, () => handle(request, ...rest));
    const isGone = goneFrom(rest[0] as NodeResponse | undefined);
    return watched.run({ transport, isGone, messages: 0 }, () => handle(request, ...rest));
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

async function handleFetched(transport: SdkTransport, request: Partial<Request>, handle: () => Promise<unknown>) {
  let isCancelled = false;
  const isGone = () => isCancelled || request.signal?.aborted === true;
  const response = (await watched.run({ transport, isGone, messages: 0 }, handle)) as Response;
  if (!response.body) return response;
  const reader = response.body.getReader();
  const cancel = (reason: unknown) => {
    isCancelled = true;
    return reader.cancel(reason);
  };
  return new Response(restOf({ read: () => reader.read(), cancel }, []), response);
}

/** What is known of the HTTP request that brought a message. */
export interface SentRequest {
  /** whether its client has closed the connection; never over other transports */
  readonly isGone: () => boolean;
  /** whether it brought other messages too; known once all of them are delivered */
  readonly isBatch: () => boolean;
}

/** Counts a message of the request that is handled now. */
export function requestOf(transport: SdkTransport): SentRequest {
  const current = watched.getStore();
  if (current?.transport !== transport) return { isGone: () => false, isBatch: () => false };
  current.messages++;
  return { isGone: current.isGone, isBatch: () => current.messages > 1 };
}
