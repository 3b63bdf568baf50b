/** Serves the app over HTTP, and stops without cutting responses in progress. */
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { getRequestListener, RequestError } from "@hono/node-server";
import { ConfigError, InvalidRequest } from "turnpike/protocol";
import { Connections } from "./connections";
import type { DirectRoutes } from "./direct-routes";
import { problemResponse } from "./errors";
import { acceptMore } from "./multi-accept";

export interface ServerOptions {
  readonly fetch: (request: Request, env?: unknown) => Response | Promise<Response>;
  /** called before `fetch` */
  readonly directRoutes?: DirectRoutes;
  readonly host: string;
  /** 0: any free one */
  readonly port: number;
  /** settings that an error names; default HOST and PORT */
  readonly names?: { readonly host: string; readonly port: string };
  /** A request's head and body have to arrive in full within it; default 15,000. */
  readonly requestTimeoutMs?: number;
  /** open at once; default 10,000 */
  readonly maxConnections?: number;
  /** A client has to read the next part of its answer within it; default 30,000. */
  readonly readTimeoutMs?: number;
}

export interface RunningServer {
  readonly url: string;
  /**
   * Closes each connection with its next answer, for up to `leaveMs`: a client may be about to use one that it has kept.
   * Then accepts no new request, waits up to `drainMs` for running ones, and cuts the rest.
   */
  stop(drainMs: number, leaveMs?: number): Promise<void>;
}

/** A request whose head and body have not arrived by then gets 408, and its connection is closed. */
const REQUEST_TIMEOUT_MS = 15_000;

const MAX_CONNECTIONS = 10_000;

/** A client that reads nothing of its answer for this time loses its connection. */
const READ_TIMEOUT_MS = 30_000;

/** Node checks connections against that every 30 s by default, which makes 45 s of 15. */
const CHECK_EVERY_MS = 500;

/** Longer than clients keep connections open, so that the server does not close one that is about to be used. */
const KEEP_ALIVE_MS = 65_000;

const LOOK_EVERY_MS = 20;

/** Connections waiting to be accepted: a burst is not refused before it can get a response. */
const BACKLOG = 4_096;

function cannotListen(
  { host, port, names = { host: "HOST", port: "PORT" } }: ServerOptions,
  cause: Error & { readonly code?: string },
): ConfigError {
  const reasons: Readonly<Record<string, string>> = {
    EADDRINUSE: `another process uses the port: stop it, or set ${names.port} to another one`,
    EACCES: `this user may not use the port: set ${names.port} to one above 1023`,
    EADDRNOTAVAIL: `this machine has no such address: correct ${names.host}`,
    ENOTFOUND: `the name is not known: correct ${names.host}`,
  };
  return new ConfigError(`cannot listen on ${host}:${port}: ${reasons[cause.code ?? ""] ?? cause.code ?? "unknown"}`, {
    cause,
  });
}

/** Answers a request whose target or host is malformed, which the app does not get. */
function errorHandler(error: unknown): Response {
  const isMalformed = error instanceof RequestError;
  return problemResponse(isMalformed ? new InvalidRequest("request: must have a path and a well-formed Host") : error);
}

export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { fetch, directRoutes, host, port, requestTimeoutMs = REQUEST_TIMEOUT_MS } = options;
  const { maxConnections = MAX_CONNECTIONS, readTimeoutMs = READ_TIMEOUT_MS } = options;
  // An embedding program keeps its own Request and Response.
  const listener = getRequestListener(fetch, { overrideGlobalObjects: false, errorHandler });
  const timeouts = {
    requestTimeout: requestTimeoutMs,
    headersTimeout: requestTimeoutMs,
    connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, requestTimeoutMs),
  };
  let isStopping = false;
  const running = new Set<ServerResponse>();
  const connections = new Connections({ maxConnections, monotonicMs: () => performance.now() });
  // A host that is missing is refused like one that is none.
  const http = { ...timeouts, keepAliveTimeout: KEEP_ALIVE_MS, requireHostHeader: false };
  const serve: RequestListener = (incoming, outgoing) => {
    if (!connections.begin(incoming, outgoing)) return;
    outgoing.shouldKeepAlive &&= !isStopping;
    if (!isStopping) {
      running.add(outgoing);
      outgoing.once("close", () => running.delete(outgoing));
    }
    if (!directRoutes?.(incoming, outgoing)) void listener(incoming, outgoing);
  };
  const server = createServer(http, serve);
  // HTTP allows to ignore an expectation that is not known.
  server.on("checkExpectation", serve);
  server.timeout = readTimeoutMs;
  connections.attachTo(server);
  await new Promise<void>((resolve, reject) => {
    const refuse = (cause: Error): void => reject(cannotListen(options, cause));
    server.once("error", refuse);
    server.listen({ port, host, backlog: BACKLOG }, () => {
      server.off("error", refuse);
      resolve();
    });
  });
  const accepting = acceptMore(server, BACKLOG);
  const { address, family, port: bound } = server.address() as AddressInfo;
  const shown =
    family === "IPv6" ? `[${address === "::" ? "::1" : address}]` : address === "0.0.0.0" ? "127.0.0.1" : address;
  return {
    url: `http://${shown}:${bound}`,
    async stop(drainMs, leaveMs = 0) {
      // Clients answered from now on must not reuse the connection.
      isStopping = true;
      for (const reply of running) reply.shouldKeepAlive = false;
      server.keepAliveTimeout = 1;
      for (const endMs = performance.now() + leaveMs; connections.count > 0 && performance.now() < endMs; )
        await sleep(LOOK_EVERY_MS);
      const cut = setTimeout(() => {
        server.closeAllConnections();
        connections.cut();
      }, drainMs);
      await Promise.all([new Promise((resolve) => server.close(resolve)), accepting.close()]);
      clearTimeout(cut);
    },
  };
}
