/** Servers of the official SDK over streamable HTTP, each session with a server of its own, and clients of them. */
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import { json } from "node:stream/consumers";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import {
  StreamableHTTPServerTransport,
  type StreamableHTTPServerTransportOptions,
} from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import type { JsonObject } from "turnpike/protocol";
import { askIn } from "../../../../sdk/src/mcp/wire";
import { closeServer, listen } from "../../../support/gate";
import { exactPayload } from "../../gate/support/standard";

/** Of the copy of the SDK that these servers are of. */
export { McpError as ServerError } from "@modelcontextprotocol/sdk/types.js";

export interface ServedTools {
  readonly url: string;
  /** Connects a new session. @param headers of each request */
  connect(headers?: Record<string, string>): Promise<Client>;
  close(): Promise<void>;
}

export interface ServeOptions extends StreamableHTTPServerTransportOptions {
  /** called when a client closes its connection before its response has ended */
  readonly onBroken?: () => void;
}

/** @param register called with the server of each session */
export async function serveTools(
  register: (server: McpServer) => void,
  { onBroken, ...options }: ServeOptions = {},
): Promise<ServedTools> {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  async function sessionOf({ headers }: IncomingMessage): Promise<StreamableHTTPServerTransport> {
    const known = sessions.get(String(headers["mcp-session-id"]));
    if (known) return known;
    const transport = new StreamableHTTPServerTransport({
      ...options,
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, transport),
    });
    const server = new McpServer({ name: "tools", version: "1.0.0" });
    register(server);
    await server.connect(transport as never);
    return transport;
  }
  const http = createServer(async (request, response) => {
    response.once("close", () => {
      if (!response.writableFinished) onBroken?.();
    });
    const transport = await sessionOf(request);
    await transport.handleRequest(request, response, request.method === "POST" ? await json(request) : undefined);
  });
  // A client reuses its connection after any pause.
  http.keepAliveTimeout = 0;
  const url = await listen(http);
  const clients: Client[] = [];
  return {
    url,
    async connect(headers = {}) {
      const client = new Client({ name: "buyer", version: "1.0.0" });
      await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }) as never);
      clients.push(client);
      return client;
    },
    async close() {
      await Promise.all(clients.map((client) => client.close()));
      await closeServer(http);
    },
  };
}

export interface Called {
  readonly tool?: string;
  readonly args?: Record<string, unknown>;
  readonly meta?: Record<string, unknown>;
  readonly signal?: AbortSignal;
  readonly onprogress?: (progress: { readonly progress: number }) => void;
}

/** Calls a tool as a client does that knows nothing of payments. */
export async function call(
  client: Client,
  { tool = "quote", args = {}, meta, ...options }: Called,
): Promise<CallToolResult> {
  const params = { name: tool, arguments: args, ...(meta && { _meta: meta }) };
  return (await client.callTool(params, undefined, options)) as CallToolResult;
}

/** Returns the text of a result's first part. */
export const textOf = ({ content: [first] }: CallToolResult): string => (first?.type === "text" ? first.text : "");

/** @throws where the result asks for nothing */
export function askOf(result: CallToolResult) {
  const ask = askIn(result);
  if (!ask?.quote) throw new TypeError(`no ask: ${JSON.stringify(result)}`);
  return ask as { readonly required: Required; readonly quote: JsonObject };
}

interface Required extends JsonObject {
  readonly resource: { readonly url: string };
  readonly accepts: readonly {
    readonly payTo: string;
    readonly amount: string;
    readonly scheme: string;
    readonly extra: JsonObject;
  }[];
  readonly extensions: JsonObject;
}

/** Returns the standard payload of version 2 that pays the first option of an ask. */
export async function payloadFor(result: CallToolResult): Promise<JsonObject> {
  const { required } = askOf(result);
  const [accepted] = required.accepts;
  if (!accepted) throw new TypeError("the ask has no option");
  const payload = await exactPayload({ to: accepted.payTo, value: BigInt(accepted.amount) });
  return { x402Version: 2, resource: required.resource, payload, accepted, extensions: required.extensions };
}

/** Asks a tool, and returns `_meta` that pays for the call. */
export async function paying(client: Client, called: Called): Promise<Record<string, unknown>> {
  return { "x402/payment": await payloadFor(await call(client, called)) };
}
