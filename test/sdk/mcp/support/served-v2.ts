/** Tools on `@modelcontextprotocol/server`: a server for each request, replicas behind a balancer, and clients of them. */
import { createServer } from "node:http";
import { Client, StreamableHTTPClientTransport, type VersionNegotiationMode } from "@modelcontextprotocol/client";
import { toNodeHandler } from "@modelcontextprotocol/node";
import {
  type CreateMcpHandlerOptions,
  createMcpHandler,
  McpServer,
  type McpServerOptions,
} from "@modelcontextprotocol/server";
import { closeServer, listen } from "../../../support/gate";

export const REVISION = "2026-07-28";

export type Register = (server: McpServer) => void;

export interface ServedReplicas {
  readonly url: string;
  /** Connects a client. @param mode default: the new revision alone */
  connect(mode?: VersionNegotiationMode, client?: Client): Promise<Client>;
  /** Resolves when a client closes its connection before its response has ended. */
  broken(): Promise<void>;
  close(): Promise<void>;
}

/** @param replicas each is called with the server of every request that it serves; they take turns */
export async function serveReplicas(
  replicas: readonly Register[],
  options: CreateMcpHandlerOptions = {},
  serverOptions: McpServerOptions = {},
): Promise<ServedReplicas> {
  const handlers = replicas.map((register) =>
    createMcpHandler(() => {
      const server = new McpServer({ name: "tools", version: "1.0.0" }, serverOptions);
      register(server);
      return server;
    }, options),
  );
  const listeners = handlers.map((handler) => toNodeHandler(handler));
  let turn = 0;
  let onBroken = (): void => undefined;
  const http = createServer((request, response) => {
    response.once("close", () => {
      if (!response.writableFinished) onBroken();
    });
    void listeners[turn++ % listeners.length]?.(request, response);
  });
  // A client reuses its connection after any pause.
  http.keepAliveTimeout = 0;
  const url = await listen(http);
  const clients: Client[] = [];
  return {
    url,
    async connect(mode = { pin: REVISION }, client = clientOf(mode)) {
      await client.connect(new StreamableHTTPClientTransport(new URL(url)));
      clients.push(client);
      return client;
    },
    broken: () =>
      new Promise((resolve) => {
        onBroken = resolve;
      }),
    async close() {
      await Promise.all(clients.map((client) => client.close()));
      await Promise.all(handlers.map((handler) => handler.close()));
      await closeServer(http);
    },
  };
}

export const clientOf = (mode: VersionNegotiationMode): Client =>
  new Client({ name: "buyer", version: "1.0.0" }, { versionNegotiation: { mode } });
