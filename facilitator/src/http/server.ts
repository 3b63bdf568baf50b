/** Serves the app over HTTP, and stops without cutting off who is being answered. */
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { ConfigError } from "turnpike/protocol";

export interface ServerOptions {
  readonly fetch: (request: Request, env?: unknown) => Response | Promise<Response>;
  readonly host: string;
  /** 0: any free one */
  readonly port: number;
}

export interface RunningServer {
  readonly url: string;
  /** Takes no new request, lets the running ones end for `drainMs`, then cuts. */
  stop(drainMs: number): Promise<void>;
}

/** A request that is not in by then, head and body, is given up. */
const REQUEST_TIMEOUT_MS = 15_000;

export async function startServer({ fetch, host, port }: ServerOptions): Promise<RunningServer> {
  const server = createAdaptorServer({
    fetch,
    // Whoever embeds this service keeps its own Request and Response.
    overrideGlobalObjects: false,
    serverOptions: { requestTimeout: REQUEST_TIMEOUT_MS, headersTimeout: REQUEST_TIMEOUT_MS, keepAliveTimeout: 5_000 },
  }) as Server;
  await new Promise<void>((resolve, reject) => {
    const refuse = (cause: Error): void => reject(new ConfigError(`cannot listen on ${host}:${port}`, { cause }));
    server.once("error", refuse);
    server.listen(port, host, () => {
      server.off("error", refuse);
      resolve();
    });
  });
  const { address, family, port: bound } = server.address() as AddressInfo;
  const shown =
    family === "IPv6" ? `[${address === "::" ? "::1" : address}]` : address === "0.0.0.0" ? "127.0.0.1" : address;
  return {
    url: `http://${shown}:${bound}`,
    stop(drainMs) {
      return new Promise((resolve) => {
        const cut = setTimeout(() => server.closeAllConnections(), drainMs);
        server.close(() => {
          clearTimeout(cut);
          resolve();
        });
        server.closeIdleConnections();
      });
    },
  };
}
