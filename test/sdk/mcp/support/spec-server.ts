/**
 * An MCP server that sells its tools, written from x402's MCP transport alone: it knows nothing of this project. It
 * settles on the simulated chain, answers in the forms of other servers, and lies where a test asks it to.
 */
import { createServer } from "node:http";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { caip2Of } from "turnpike/protocol";
import { closeServer, listen } from "../../../support/gate";
import {
  extensionOf,
  type StandardPayload,
  type Statements,
  settleStandard,
} from "../../agent/support/standard-server";
import { addressOf, CHAIN_ID, type Chain, NETWORK, TOKEN, TOKEN_DOMAIN } from "../../agent/support/world";

/**
 * `settle_then_lose`: the connection breaks before the answer. `settle_then_wait`: the answer never comes. `ask`: it
 * asks again for what was presented. `fail`: the tool fails, and nothing settles. `settle_then_fail`: it fails, and the
 * server reports that its payment has settled.
 */
export type ToolStep = "settle_then_lose" | "settle_then_wait" | "ask" | "fail" | "settle_then_fail";

type Result = Record<string, unknown>;
type Meta = Readonly<Record<string, unknown>>;

export interface SpecServerOptions {
  /** `spec`: the specification's. `meta`: in `_meta` alone, and base64. `v1`: version 1, base64 under its own key */
  readonly form?: "spec" | "meta" | "v1";
  /** changes what is asked: where a lying server lies */
  readonly tamper?: (required: Result, asks: number) => Result;
  /** answers a call in its own way; undefined: as a server that sells */
  readonly answer?: (meta: Meta) => Result | undefined;
  readonly steps?: ToolStep[];
  /** serves a settled payment every time it is presented */
  readonly redeems?: boolean;
  /** what it signs, of version 2 */
  readonly signs?: Statements;
}

export interface SpecServer {
  /** `_meta` of every call of a tool */
  readonly metas: Meta[];
  /** arguments of every call of a tool */
  readonly args: unknown[];
  /** every distinct payment that was presented */
  readonly payments: Set<string>;
  readonly steps: ToolStep[];
  /** called once a payment has settled whose answer never comes */
  onWaiting: () => void;
  /** Creates the server of one connection. */
  open(): Server;
}

export const PRICE = "10000";

export function specServer(chain: Chain, options: SpecServerOptions = {}): SpecServer {
  const { form = "spec", tamper, answer, steps = [], redeems = true, signs } = options;
  const metas: Meta[] = [];
  const args: unknown[] = [];
  const payments = new Set<string>();
  let asks = 0;

  function ask(tool: string, error = "payment required"): Result {
    const isFirst = form === "v1";
    const resource = form === "meta" ? `x402://${tool}` : `mcp://tool/${tool}`;
    const common = { scheme: "exact", payTo: addressOf("provider"), asset: TOKEN, maxTimeoutSeconds: 60 };
    const entry = isFirst
      ? { ...common, network: NETWORK, maxAmountRequired: PRICE, resource, description: "", mimeType: "" }
      : { ...common, network: caip2Of(CHAIN_ID), amount: PRICE };
    const accepts = [{ ...entry, extra: TOKEN_DOMAIN }];
    const { maxTimeoutSeconds: _, ...terms } = { ...common, network: caip2Of(CHAIN_ID), amount: PRICE };
    const offered = { version: 1 as const, resourceUrl: resource, ...terms, validUntil: chain.nowSec + 300 };
    const offers = signs?.offers?.(offered);
    const extensions = offers && { extensions: extensionOf({ offers }) };
    const plain = isFirst
      ? { x402Version: 1, error, accepts }
      : { x402Version: 2, error, resource: { url: resource }, accepts, ...extensions };
    const required = tamper?.(plain, asks++) ?? plain;
    const content = [{ type: "text", text: JSON.stringify(required) }];
    if (form === "meta") return { isError: true, content, _meta: { "x402/error": required } };
    return { isError: true, content, structuredContent: required };
  }

  function presented(meta: Meta): StandardPayload | undefined {
    const value = meta[form === "v1" ? "x402.payment" : "x402/payment"];
    if (value === undefined) return undefined;
    payments.add(JSON.stringify(value));
    const isText = form !== "spec";
    if (isText !== (typeof value === "string")) return undefined;
    return (isText ? JSON.parse(atob(value as string)) : value) as StandardPayload;
  }

  const broken = { isError: true, content: [{ type: "text", text: "The tool is broken." }] };

  async function call(tool: string, meta: Meta, lose: () => Promise<void>): Promise<Result> {
    metas.push(meta);
    const own = answer?.(meta);
    if (own) return own;
    const paid = presented(meta);
    if (!paid) return ask(tool);
    const step = steps.shift();
    if (step === "fail") return broken;
    if (step === "ask") return ask(tool, "invalid_payload");
    const transaction = settleStandard(chain, paid.payload, { amount: PRICE, redeems });
    if (!transaction) return ask(tool, "invalid_payload");
    if (step === "settle_then_wait") {
      specified.onWaiting();
      return new Promise(() => {});
    }
    if (step === "settle_then_lose") await lose();
    const settled = { transaction, network: caip2Of(CHAIN_ID), payer: addressOf("payer") };
    const facts = { ...settled, version: 1 as const, resourceUrl: `mcp://tool/${tool}`, issuedAt: chain.nowSec };
    const signed = signs?.receipt?.(facts);
    const receipt = { success: true, ...settled, ...(signed ? { extensions: extensionOf({ receipt: signed }) } : {}) };
    const key = form === "v1" ? "x402.payment-response" : "x402/payment-response";
    const result = { content: [{ type: "text", text: "fine" }], structuredContent: { sky: "fine" } };
    return { ...(step === "settle_then_fail" ? broken : result), _meta: { [key]: receipt } };
  }

  const outputSchema = { type: "object", properties: { sky: { type: "string" } }, required: ["sky"] } as const;
  const specified: SpecServer = {
    metas,
    args,
    payments,
    steps,
    onWaiting: () => {},
    open() {
      const server = new Server({ name: "weather", version: "1.0.0" }, { capabilities: { tools: {} } });
      server.setRequestHandler(ListToolsRequestSchema, () => ({
        tools: [{ name: "weather", inputSchema: { type: "object" }, outputSchema }],
      }));
      server.setRequestHandler(CallToolRequestSchema, ({ params }) => {
        args.push(params.arguments);
        return call(params.name, params._meta ?? {}, () => server.close());
      });
      return server;
    },
  };
  return specified;
}

/** Connects a client in this process; after a lost connection it can be connected again. */
export async function connectInMemory(
  server: SpecServer,
  client = new Client({ name: "test", version: "1" }),
): Promise<Client> {
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  await server.open().connect(theirs);
  await client.connect(ours);
  return client;
}

export interface HttpSpecServer {
  readonly url: string;
  close(): Promise<void>;
}

/** Serves over streamable HTTP, a server for each request. A lost connection is a socket that ends. */
export async function serveOverHttp(server: SpecServer): Promise<HttpSpecServer> {
  const http = createServer(async (request, response) => {
    if (request.method !== "POST") return void response.writeHead(405).end();
    const session = server.open();
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
    session.onclose = () => request.socket.destroy();
    await session.connect(transport as Parameters<typeof session.connect>[0]);
    await transport.handleRequest(request, response);
  });
  const url = await listen(http);
  return { url: `${url}/mcp`, close: () => closeServer(http) };
}
