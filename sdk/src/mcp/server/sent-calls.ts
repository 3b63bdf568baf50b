/**
 * Follows each tool call from its transport to its handler: the arguments as the client sent them, and whether the
 * response can still arrive. The SDK gives handlers parsed arguments alone, and a schema may yield others each time (a
 * random default, the time) or what has no JSON form (a Date, a Map). What a client can repeat is what it sent.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { ConfigError } from "../../protocol";
import { callText, paymentAmong } from "../wire";
import { followResponses, requestOf, type SentRequest } from "./responses";
import type { SdkTransport, ToolServer } from "./sdk-call";

interface SentCall {
  readonly server: ToolServer;
  readonly tool: string;
  readonly requestId: unknown;
  /** Returns the text that names the call. @throws InvalidRequest */
  readonly text: () => string;
  /** the argument that holds a payment, where one does */
  readonly misplaced: string | undefined;
  /** whether the client asks for a task instead of a result */
  readonly isTask: boolean;
  readonly request: SentRequest;
}

/** The id of the server under which each of its paid tools is sold. */
const followed = new WeakMap<ToolServer, Map<string, string>>();

/** Of the message that a transport has delivered. */
const sentCalls = new AsyncLocalStorage<SentCall | undefined>();

/** Follows the calls of a tool, over transports that are connected now or later. */
export function followCalls(server: ToolServer, tool: string, serverId: string): void {
  const known = followed.get(server);
  if (known) {
    known.set(tool, serverId);
    return;
  }
  followed.set(server, new Map([[tool, serverId]]));
  const protocol = server.server;
  if (protocol.transport) followMessages(server, protocol.transport);
  const connect = protocol.connect.bind(protocol);
  protocol.connect = (transport) => {
    // `start` is called once the SDK's callbacks are installed, and before the first message.
    const start = transport.start.bind(transport);
    transport.start = () => {
      transport.start = start;
      followMessages(server, transport);
      return start();
    };
    return connect(transport);
  };
}

function followMessages(server: ToolServer, transport: SdkTransport): void {
  followResponses(transport);
  const deliver = transport.onmessage?.bind(transport);
  transport.onmessage = (message, extra) =>
    sentCalls.run(sentCallIn(server, transport, message), () => deliver?.(message, extra));
}

function sentCallIn(server: ToolServer, transport: SdkTransport, message: object): SentCall | undefined {
  const { id: requestId, method, params } = message as Partial<Record<"id" | "method" | "params", unknown>>;
  const request = requestOf(transport);
  if (method !== "tools/call") return undefined;
  const { name, arguments: args, task } = (params ?? {}) as Partial<Record<"name" | "arguments" | "task", unknown>>;
  const serverId = followed.get(server)?.get(String(name));
  if (serverId === undefined) return undefined;
  const tool = String(name);
  return {
    server,
    tool,
    requestId,
    text: read(() => callText({ server: serverId, tool, args })),
    misplaced: paymentAmong(args),
    isTask: task !== undefined,
    request,
  };
}

/** Reads now: a schema may change the arguments while it parses them. */
function read(text: () => string): () => string {
  try {
    const value = text();
    return () => value;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

/** @throws ConfigError where the call came past its server's transport */
export function sentCallOf(server: ToolServer, tool: string, requestId: unknown): SentCall {
  const sent = sentCalls.getStore();
  // A handler may call a tool of another server in this process.
  if (sent?.server === server && sent.tool === tool && sent.requestId === requestId) return sent;
  throw new ConfigError(
    `paidTool: a call of ${tool} did not come over a transport that the server was connected to: call server.connect(transport), and keep async context on the way to the handler`,
  );
}
