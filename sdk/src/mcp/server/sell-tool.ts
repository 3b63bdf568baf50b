/** Sells a tool at a server of either release of the MCP SDK: what both releases' `paidTool` share. */
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
import { toolResource } from "../wire";
import { type ResultSchema, resultChecker } from "./check-result";
import type { RegisteredSdkTool, Sdk, SdkCall, ToolServer } from "./sdk-call";
import { followCalls, sentCallOf } from "./sent-calls";
import { SettlementProgress } from "./settlement-progress";

type Sold = "free" | "metered" | "authorize" | "replay" | "settle" | "refundOnFailure";

/** A tool: how it is listed, and what it costs. */
export type ToolTerms<Request, Input, Output, Annotations> = ToolOptions<Request, Input, Output, Annotations> &
  PricingOptions<Request>;

/** How a tool is listed, and on what terms it is sold. */
export interface ToolOptions<Request, Input, Output, Annotations>
  extends Pick<RouteOptions<Request>, Sold | "sellSingleAtPlanPrice"> {
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
  readonly annotations?: Annotations;
  /** of the tool's listing */
  readonly _meta?: Record<string, unknown>;
  /** the largest arguments, as sent, as canonical JSON with the names of server and tool; default 1,048,576 bytes */
  readonly maxArgumentBytes?: number;
}

/** A registered tool. Its handler cannot be exchanged: that one would be free. */
export interface PaidTool extends RegisteredSdkTool {
  /**
   * Rejects with ConfigError when a plan or the contract is not on the chain, with Unavailable when it cannot be asked.
   */
  ready(): Promise<void>;
}

/** One call of a tool, for its prices and callbacks. */
interface CalledTool {
  readonly tool: string;
  readonly args: unknown;
  readonly extra: unknown;
}

type AnyTerms = ToolTerms<never, unknown, unknown, unknown>;

/** A tool to sell, and the release of the SDK that its server is of. */
interface Offered<Context> {
  readonly sdk: Sdk<Context>;
  readonly name: string;
  readonly options: AnyTerms;
  readonly handler: (args: never, context: Context & { readonly payment: Payment }) => unknown;
}

/** @throws ConfigError for a name, an id or pricing that could never be charged as written */
export function sellTool<Context extends object>(
  server: ToolServer,
  { sdk, name, options, handler }: Offered<Context>,
): PaidTool {
  callback(fieldsOf(server, "server").registerTool, "server.registerTool");
  fieldsOf(options, "options");
  callback(handler, "handler");
  const gate = gateFor(name, options);
  const { serverId, inputSchema, outputSchema } = options;
  const check = resultChecker(name, outputSchema as ResultSchema | undefined, sdk.release);
  const onFault = (error: unknown): void => reportFault(server, name, error);
  const serve = async (args: unknown, called: SdkCall<Context>): Promise<ToolResult> => {
    const { meta, http, signal } = called;
    const progress = new SettlementProgress(meta?.progressToken, called.notify);
    const context = called.contextFor(progress.notify);
    requireConfidential(meta, connectionOf(server, http), gate.origin);
    const sent = sentCallOf(server, name, called.requestId);
    if (sent.isTask) throw noTasks(name);
    const raw: CalledTool = { tool: name, args, extra: context };
    const isBatch = sent.request.isBatch();
    const headers = http?.headers;
    const request = gateRequestOfTool({ tool: name, callText: sent.text, meta, headers, isBatch, raw });
    const run = async (payment: Payment) => {
      progress.stop();
      try {
        return await check(await handler(args as never, { ...context, payment }));
      } finally {
        progress.start();
      }
    };
    progress.start();
    try {
      return await callPaid(gate, {
        request,
        // Where the client can resume the stream, its event store keeps the result.
        hasLeft: () => signal.aborted || (!called.isResumable && sent.request.isGone()),
        isStructured: outputSchema === undefined,
        misplaced: sent.misplaced,
        run,
        passes,
        onFault,
      });
    } finally {
      progress.stop();
    }
  };
  const call = async (args: unknown, context: Context): Promise<ToolResult> => {
    try {
      return await serve(args, sdk.readCall(context));
    } catch (error) {
      if (passes(error)) throw error;
      const isRefused = isTurnpikeError(error) && error.code !== "ConfigError";
      if (!isRefused) onFault(error);
      return refusalOf(errorAnswer(isRefused ? error : undefined));
    }
  };
  const { title, description, annotations, _meta } = options;
  // Without a schema the SDK would pass no arguments.
  const listed = { title, description, annotations, _meta, inputSchema: inputSchema ?? {}, outputSchema };
  const registered = server.registerTool(name, withoutUndefined(listed), call as never);
  followCalls(server, name, serverId);
  return {
    ready: () => gate.ready(),
    enable: () => registered.enable(),
    disable: () => registered.disable(),
    remove: () => registered.remove(),
  };
}

const OPTIONS: Readonly<Record<keyof AnyTerms, true>> = {
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

function gateFor(name: string, options: AnyTerms): Gate {
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
  const gate = gateOf<never>({
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
function reportFault(server: ToolServer, tool: string, error: unknown): void {
  const { onerror } = server.server;
  if (onerror) onerror(error instanceof Error ? error : new Error(String(error)));
  else process.emitWarning(`The tool ${tool} answers Internal: ${lineOf(error)}`);
}

/** Whose other end is a pipe's, or in this process. A subclass is not: it may do anything with what it is sent. */
const LOCAL_TRANSPORTS: ReadonlySet<string> = new Set([
  "StdioServerTransport",
  // Of `serveStdio`.
  "StdioConnectionChannel",
  "InMemoryTransport",
]);

function connectionOf(server: ToolServer, http: CallConnection["http"]): CallConnection {
  const { transport } = server.server;
  return { isLocal: LOCAL_TRANSPORTS.has(transport?.constructor.name ?? ""), http };
}

/** UrlElicitationRequired: the SDK answers this error itself, with the address that the person has to open. */
const URL_ELICITATION_REQUIRED = -32_042;

const passes = (error: unknown): boolean =>
  error instanceof Error && (error as Error & { readonly code?: unknown }).code === URL_ELICITATION_REQUIRED;
