/** Registers a paid tool at a server of `@modelcontextprotocol/server`. Imports types of it alone: any copy will do. */
import type {
  CallToolResult,
  InputRequiredResult,
  McpServer,
  Notification,
  ServerContext,
  StandardSchemaWithJSON,
  ToolAnnotations,
} from "@modelcontextprotocol/server";
import type { Payment } from "../../../gate/core/payment";
import { type Meta, withoutCredentials } from "../../wire";
import type { Sdk, ToolServer } from "../sdk-call";
import { type PaidTool, sellTool, type ToolTerms } from "../sell-tool";

/** The arguments that a tool's handler gets: parsed, with defaults. */
export type ToolArguments<Input> = Input extends StandardSchemaWithJSON
  ? StandardSchemaWithJSON.InferOutput<Input>
  : Readonly<Record<string, never>>;

/** What the SDK gives each handler, and who paid. `mcpReq._meta` is without payments and subscription ids. */
export type PaidToolContext = ServerContext & {
  /** who paid, and how: `payment.deduct()` and `payment.charge()` as at HTTP */
  readonly payment: Payment;
};

/**
 * Serves one paid call. A result with `isError`, or a throw, is a failure: it costs nothing, or gives its payment back. A
 * result of `inputRequired` costs nothing: the payment buys the call that brings the input.
 */
export type PaidToolHandler<Input = undefined> = (
  args: ToolArguments<Input>,
  context: PaidToolContext,
) => CallToolResult | InputRequiredResult | Promise<CallToolResult | InputRequiredResult>;

/** A call, as prices and callbacks that are functions get it. */
export interface ToolCallRequest<Input = undefined> {
  readonly tool: string;
  readonly args: ToolArguments<Input>;
  /** `mcpReq._meta` is without payments and subscription ids */
  readonly extra: ServerContext;
}

/** A tool: how it is listed, and what it costs. */
export type PaidToolOptions<Input = undefined, Output = undefined> = ToolTerms<
  ToolCallRequest<Input>,
  Input,
  Output,
  ToolAnnotations
>;

const SDK: Sdk<ServerContext> = {
  release: 2,
  readCall(context) {
    const { mcpReq, http } = context;
    const meta = mcpReq._meta as Meta | undefined;
    const request = http?.req;
    return {
      meta,
      requestId: mcpReq.id,
      signal: mcpReq.signal,
      http: request && { headers: Object.fromEntries(request.headers), url: new URL(request.url) },
      isResumable: http?.closeSSE !== undefined,
      notify: (notification) => mcpReq.notify(notification as Notification),
      contextFor(notify) {
        const bare = { ...mcpReq, notify, ...(meta && { _meta: withoutCredentials(meta) }) };
        return { ...context, mcpReq: bare as ServerContext["mcpReq"] };
      },
    };
  },
};

/**
 * Registers a paid tool. An unpaid call gets the price as x402 describes it for MCP; a paid one runs the handler once,
 * also when it is repeated. Servers that are made for each request share what they sell where the same `options` object
 * is passed each time.
 * @throws ConfigError for a name, an id or pricing that could never be charged as written
 */
export function paidTool<
  Input extends StandardSchemaWithJSON | undefined = undefined,
  Output extends StandardSchemaWithJSON | undefined = undefined,
>(server: McpServer, name: string, options: PaidToolOptions<Input, Output>, handler: PaidToolHandler<Input>): PaidTool {
  return sellTool(server as unknown as ToolServer, {
    sdk: SDK,
    name,
    options: options as never,
    handler: handler as never,
  });
}
