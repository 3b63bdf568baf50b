/** Registers a paid tool at a server of the official SDK. Imports types of the SDK alone: any copy of it will do. */
import type { McpServer, RegisteredTool } from "@modelcontextprotocol/sdk/server/mcp.js";
import type {
  AnySchema,
  SchemaOutput,
  ShapeOutput,
  ZodRawShapeCompat,
} from "@modelcontextprotocol/sdk/server/zod-compat.js";
import type { RequestHandlerExtra } from "@modelcontextprotocol/sdk/shared/protocol.js";
import type {
  CallToolResult,
  ServerNotification,
  ServerRequest,
  ToolAnnotations,
} from "@modelcontextprotocol/sdk/types.js";
import { callPaid, refusalOf, type ToolResult } from "../../gate/adapters/mcp";
import { type CallConnection, gateRequestOfTool, requireConfidential } from "../../gate/adapters/mcp-request";
import { errorAnswer } from "../../gate/core/answer";
import { lineOf } from "../../gate/core/callback-fault";
import { type PricingOptions, pricingEntriesOf, type RouteOptions } from "../../gate/core/gate-options";
import type { Payment } from "../../gate/core/payment";
import type { Gate } from "../../gate/decision/gate";
import { gateOf, type Provider } from "../../gate/provider/provider";
import { ConfigError, InvalidRequest, isTurnpikeError } from "../../protocol";
import { callback, fieldsOf, kindOf } from "../../protocol/arguments";
import { toolResource, withoutCredentials } from "../wire";
import { resultChecker } from "./check-result";
import { followCalls, sentCallOf } from "./sent-calls";

/** A schema of the SDK: a raw shape such as `{ symbol: z.string() }`, or a schema. */
export type ToolSchema = ZodRawShapeCompat | AnySchema;

/** The arguments that a tool's handler gets: parsed, with defaults. */
export type ToolArguments<Input> = Input extends ZodRawShapeCompat
  ? ShapeOutput<Input>
  : Input extends AnySchema
    ? SchemaOutput<Input>
    : Readonly<Record<string, never>>;

type SdkExtra = RequestHandlerExtra<ServerRequest, ServerNotification>;

/** What the SDK gives each handler, and who paid. Its `_meta` is without payments and subscription ids. */
export type PaidToolExtra = SdkExtra & {
  /** who paid, and how: `payment.deduct()` and `payment.charge()` as at HTTP */
  readonly payment: Payment;
};

/** Serves one paid call. A result with `isError`, or a throw, is a failure: it costs nothing, or gives its payment back. */
export type PaidToolHandler<Input = undefined> = (
  args: ToolArguments<Input>,
  extra: PaidToolExtra,
) => CallToolResult | Promise<CallToolResult>;

/** A call, as prices and callbacks that are functions get it. */
export interface ToolCallRequest<Input = undefined> {
  readonly tool: string;
  readonly args: ToolArguments<Input>;
  /** `_meta` is without payments and subscription ids */
  readonly extra: SdkExtra;
}

type Sold = "free" | "metered" | "authorize" | "replay" | "settle" | "refundOnFailure";

/** A tool: how it is listed, and what it costs. */
export type PaidToolOptions<Input = undefined, Output = undefined> = ToolOptions<Input, Output> &
  PricingOptions<ToolCallRequest<Input>>;

interface ToolOptions<Input, Output>
  extends Pick<RouteOptions<ToolCallRequest<Input>>, Sold | "sellSingleAtPlanPrice"> {
  /**
   * a name of this server that no other server has, and that stays: its public address, for example. A payment is bound
   * to it, so that another server's tool of the same name is another resource
   */
  readonly serverId: string;
  /** default: the one that configure() or the environment named */
  readonly provider?: Provider;
  readonly title?: string;
  /** shown to models, and with the price */
  readonly description?: string;
  readonly inputSchema?: Input;
  /** results are checked against it before anything is charged */
  readonly outputSchema?: Output;
  readonly annotations?: ToolAnnotations;
  /** of the tool's listing */
  readonly _meta?: Record<string, unknown>;
  /** the largest arguments, as sent, as canonical JSON with the names of server and tool; default 1,048,576 bytes */
  readonly maxArgumentBytes?: number;
}

/** A registered tool. Its handler cannot be exchanged: that one would be free. */
export interface PaidTool extends Pick<RegisteredTool, "enable" | "disable" | "remove"> {
  /**
   * Rejects with ConfigError when a plan or the contract is not on the chain, with Unavailable when it cannot be asked.
   */
  ready(): Promise<void>;
}

/**
 * Registers a paid tool. An unpaid call gets the price as x402 describes it for MCP; a paid one runs the handler once,
 * also when it is repeated. Servers that are made for each session share what they sell where the same `options` object
 * is passed each time.
 * @throws ConfigError for a name, an id or pricing that could never be charged as written
 */
export function paidTool<
  Input extends ToolSchema | undefined = undefined,
  Output extends ToolSchema | undefined = undefined,
>(server: McpServer, name: string, options: PaidToolOptions<Input, Output>, handler: PaidToolHandler<Input>): PaidTool {
  callback(fieldsOf(server, "server").registerTool, "server.registerTool");
  fieldsOf(options, "options");
  callback(handler, "handler");
  const gate = gateFor(name, options as PaidToolOptions<never, never>);
  const { serverId, inputSchema, outputSchema } = options;
  const check = resultChecker(name, outputSchema);
  const onFault = (error: unknown): void => reportFault(server, name, error);
  const call = async (args: unknown, extra: SdkExtra): Promise<ToolResult> => {
    const { _meta: meta, ...rest } = extra;
    const bare = { ...rest, ...(meta && { _meta: withoutCredentials(meta) }) } as SdkExtra;
    try {
      requireConfidential(meta, connectionOf(server, extra), gate.origin);
      const sent = sentCallOf(server, name, extra.requestId);
      if (sent.isTask) throw noTasks(name);
      const raw = { tool: name, args, extra: bare };
      const { headers } = extra.requestInfo ?? {};
      const isBatch = sent.request.isBatch();
      const request = gateRequestOfTool({ tool: name, callText: sent.text, meta, headers, isBatch, raw });
      return await callPaid(gate, {
        request,
        // With `closeSSEStream`, the client can resume the stream: its event store keeps the result.
        hasLeft: () => extra.signal.aborted || (extra.closeSSEStream === undefined && sent.request.isGone()),
        isStructured: outputSchema === undefined,
        misplaced: sent.misplaced,
        run: async (payment) => check(await handler(args as ToolArguments<Input>, { ...bare, payment })),
        passes,
        onFault,
      });
    } catch (error) {
      if (passes(error)) throw error;
      const isRefused = isTurnpikeError(error) && error.code !== "ConfigError";
      if (!isRefused) onFault(error);
      return refusalOf(errorAnswer(isRefused ? error : undefined));
    }
  };
  const { title, description, annotations, _meta } = options;
  const listed = { title, description, annotations, _meta };
  // Without a schema the SDK would pass no arguments.
  const config = { ...withoutUndefined(listed), inputSchema: inputSchema ?? {}, ...(outputSchema && { outputSchema }) };
  const registered = server.registerTool(name, config as { inputSchema: ZodRawShapeCompat }, call as never);
  followCalls(server, name, serverId);
  return {
    ready: () => gate.ready(),
    enable: () => registered.enable(),
    disable: () => registered.disable(),
    remove: () => registered.remove(),
  };
}

const OPTIONS: Readonly<Record<keyof PaidToolOptions, true>> = {
  serverId: true,
  provider: true,
  title: true,
  description: true,
  inputSchema: true,
  outputSchema: true,
  annotations: true,
  _meta: true,
  maxArgumentBytes: true,
  price: true,
  pricing: true,
  free: true,
  metered: true,
  authorize: true,
  replay: true,
  settle: true,
  refundOnFailure: true,
  sellSingleAtPlanPrice: true,
};

/** By options: a server for each session sells the same tool. */
const gates = new WeakMap<object, Map<string, Gate>>();

function gateFor(name: string, options: PaidToolOptions<never, never>): Gate {
  const { serverId, provider, free, metered, authorize, replay, settle, refundOnFailure } = options;
  const { description, sellSingleAtPlanPrice, maxArgumentBytes } = options;
  toolResource(name);
  const surplus = Object.keys(options).find((field) => !Object.hasOwn(OPTIONS, field));
  if (surplus !== undefined) throw new ConfigError(`paidTool: "${name}".${surplus} is no option: remove it`);
  if (typeof serverId !== "string" || serverId.length < 1 || serverId.length > MAX_ID_CHARS) {
    throw new ConfigError(
      `serverId is ${typeof serverId === "string" ? JSON.stringify(serverId) : kindOf(serverId)}: use 1 to ${MAX_ID_CHARS} characters that name this server alone, such as its public address`,
    );
  }
  if (maxArgumentBytes !== undefined && !(Number.isSafeInteger(maxArgumentBytes) && maxArgumentBytes >= 1)) {
    throw new ConfigError(`maxArgumentBytes is ${String(maxArgumentBytes)}: use a whole number of at least 1`);
  }
  const made = gates.get(options) ?? new Map<string, Gate>();
  gates.set(options, made);
  const known = made.get(name);
  if (known) return known;
  const sold = { free, metered, authorize, replay, settle, refundOnFailure, description, sellSingleAtPlanPrice };
  const gate = gateOf<ToolCallRequest<never>>({
    pricing: pricingEntriesOf(options),
    ...withoutUndefined({ ...sold, provider }),
    bind: "body",
    ...(maxArgumentBytes !== undefined && { maxBodyBytes: maxArgumentBytes }),
  });
  made.set(name, gate);
  return gate;
}

/** The SDK would throw a result away that is no task, after it was paid for. */
const noTasks = (tool: string): InvalidRequest =>
  new InvalidRequest(
    `The tool ${tool} is called without \`task\`: its result is returned at once. Nothing was charged.`,
  );

/** Drops fields that are undefined: the SDK and the gate treat them as given. */
const withoutUndefined = (fields: object) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

const MAX_ID_CHARS = 255;

/** Reports that a call could not be judged: to the server's `onerror`, or in one line of the process's warnings. */
function reportFault(server: McpServer, tool: string, error: unknown): void {
  const { onerror } = server.server;
  if (onerror) onerror(error instanceof Error ? error : new Error(String(error)));
  else process.emitWarning(`The tool ${tool} answers Internal: ${lineOf(error)}`);
}

/** Whose other end is a pipe's, or in this process. A subclass is not: it may do anything with what it is sent. */
const LOCAL_TRANSPORTS: ReadonlySet<string> = new Set(["StdioServerTransport", "InMemoryTransport"]);

function connectionOf(server: McpServer, { requestInfo }: SdkExtra): CallConnection {
  const { transport } = server.server;
  return { isLocal: LOCAL_TRANSPORTS.has(transport?.constructor.name ?? ""), http: requestInfo };
}

/** UrlElicitationRequired: the SDK answers this error itself, with the address that the person has to open. */
const URL_ELICITATION_REQUIRED = -32_042;

const passes = (error: unknown): boolean =>
  error instanceof Error && (error as Error & { readonly code?: unknown }).code === URL_ELICITATION_REQUIRED;
