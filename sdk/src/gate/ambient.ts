/**
 * The request that is being handled, where no gate stands in front: followed from Node's own HTTP server, so that
 * `verifyPaymentProof(proof)` knows what it is asked for in a plain handler.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe } from "node:diagnostics_channel";
import type { IncomingMessage, ServerResponse } from "node:http";
import { type GateRequest, gateRequestOfNode } from "./request";

interface Ambient {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** as it came: a router may rewrite `request.url` later */
  readonly target: string;
}

const ambient = new AsyncLocalStorage<Ambient>();
let isFollowing = false;

export function followRequests(): void {
  if (isFollowing) return;
  isFollowing = true;
  subscribe("http.server.request.start", (message) => {
    const { request, response } = message as { request: IncomingMessage; response: ServerResponse };
    ambient.enterWith({ request, response, target: request.url ?? "/" });
  });
}

export function ambientRequest(): { readonly request: GateRequest; readonly response: ServerResponse } | undefined {
  const store = ambient.getStore();
  if (!store) return undefined;
  return { request: gateRequestOfNode(store.request, { target: store.target }), response: store.response };
}
