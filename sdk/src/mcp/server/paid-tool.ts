/** Registers a paid tool at a server of `@modelcontextprotocol/sdk`. Imports types of it alone: any copy will do. */
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
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
import type { Payment } from "../../gate/core/payment";
import { withoutCredentials } from "../wire";
import type { Sdk, ToolServer } from "./sdk-call";
import { type PaidTool, sellTool, type ToolTerms } from "./sell-tool";

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

/** A tool: how it is listed, and what it costs. */
export type PaidToolOptions<Input = undefined, Output = undefined> = ToolTerms<
  ToolCallRequest<Input>,
  Input,
  Output,
  ToolAnnotations
>;

const SDK: Sdk<SdkExtra> = {
  release: 1,
  readCall(extra) {
    const { _meta: meta, requestId, signal, requestInfo: http, closeSSEStream } = extra;
    return {
      ...{ meta, requestId, signal, http, isResumable: closeSSEStream !== undefined },
      notify: (notification) => extra.sendNotification(notification as ServerNotification),
      contextFor(sendNotification) {
        const { _meta, ...rest } = extra;
        const bare = { ...rest, sendNotification, ...(meta && { _meta: withoutCredentials(meta) }) };
        return bare as unknown as SdkExtra;
      },
    };
  },
};

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
  return sellTool(server as unknown as ToolServer, {
    sdk: SDK,
    name,
    options: options as never,
    handler: handler as never,
  });
}
