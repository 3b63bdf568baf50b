/** Lets an agent pay for the tool calls of an MCP client: what both releases of the MCP SDK share. */
import { internalsOf } from "../../agent/core/internals";
import type { Amount } from "../../agent/core/policy-options";
import type { Agent } from "../../agent/create-agent";
import { ConfigError, isHash32, toAmount } from "../../protocol";
import { refuseMisspelled, requireKnownFields } from "../../protocol/arguments";
import { type CallResult, canonicalJson, type Meta } from "../wire";
import { buyCall, type ToolPurchases, type ToolSubscriptions } from "./buy-call";
import { untilClosed } from "./call-channel";
import { askThrown } from "./read-ask";
import { requireServer, serverIdentity } from "./server-identity";
import { withUnpaidStreams } from "./streamed-calls";
import { keepWithinOrigin } from "./within-origin";

/** What a client may buy, and where; amounts in base units. The agent's policy holds besides. */
export interface McpPaymentOptions {
  /**
   * the server: its http(s) URL, as the transport has it, or for stdio a name of your choice. The ledger and
   * subscriptions know it by this, so one server has one name
   */
  readonly server: string | URL;
  /** the most that one call may pay at this server; default: the policy's `perPayment` alone */
  readonly maxAmount?: Amount;
  /** when given, only these tools are paid for */
  readonly tools?: readonly string[];
  /** plans that may be subscribed to where a tool offers them; default: none, and recorded subscriptions are used */
  readonly subscribe?: ToolSubscriptions;
}

/** What may be paid for one call. */
export interface CallPurchase {
  /** Names the purchase, 1 to 256 characters. The same key never pays twice for the same call. */
  readonly idempotencyKey?: string;
  /** the most that this call may pay, base units */
  readonly maxAmount?: Amount;
}

/** A client of either release, as far as calls go through it. */
export interface SdkClient {
  readonly transport?: unknown;
  request(message: object, ...rest: unknown[]): Promise<unknown>;
  callTool(params: ToolCallParams, ...rest: unknown[]): Promise<unknown>;
}

interface ToolCallParams {
  readonly name: string;
  readonly arguments?: unknown;
  readonly _meta?: Meta | undefined;
}

interface SdkMessage {
  readonly method: string;
  readonly params: ToolCallParams;
}

interface CallOptions extends CallPurchase {
  readonly signal?: AbortSignal;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Wraps a client so that `callTool` uses the agent's subscriptions and pays within its policy. Everything else is the
 * client's own.
 * @param release 1: of a client whose requests take a schema of their result before their options
 * @throws ConfigError that names the option
 */
export function payingClient(
  client: SdkClient,
  release: 1 | 2,
  { agent, options }: { readonly agent: Agent; readonly options: McpPaymentOptions },
): object {
  const { context, run } = internalsOf(agent);
  const purchases = purchasesOf(options);
  const limit = amountOf(options.maxAmount);

  function requireConnection(): void {
    requireServer(purchases.server, client.transport);
    keepWithinOrigin(client.transport);
  }

  function request(message: SdkMessage, ...rest: unknown[]) {
    if (message.method !== "tools/call") return client.request(message, ...rest);
    const schemas = rest.slice(0, 2 - release);
    const given = (rest[schemas.length] ?? {}) as CallOptions;
    const { idempotencyKey, maxAmount, ...sdkOptions } = given;
    refuseMisspelled(given, CALL_FIELDS);
    const { signal, headers } = sdkOptions;
    const { name: tool, arguments: args, _meta: meta } = message.params;
    const send = (ours: Meta): Promise<CallResult> =>
      untilClosed(context.effects, signal, async (ending) => {
        // Each time: a client that has lost its connection may be connected elsewhere.
        requireConnection();
        const params = { ...message.params, _meta: { ...meta, ...ours } };
        const sent = client.request({ ...message, params }, ...schemas, { ...sdkOptions, signal: ending });
        const result = await sent.catch((error: unknown) => {
          const asked = askThrown(error);
          if (asked) return asked;
          throw error;
        });
        return result as CallResult;
      });
    const most = lower(limit, amountOf(maxAmount));
    return run(signal, async () => {
      // Here too: what is thrown while a payment is presented counts as a lost connection.
      requireConnection();
      return buyCall(context, { purchases, tool, args, meta, headers, idempotencyKey, maxAmount: most, signal, send });
    });
  }

  // The client's own `callTool` checks results against the tool's output schema: it gets what was paid for, never an ask.
  const calls = Object.create(client, { request: { value: request } }) as SdkClient;
  const callTool = async (params: ToolCallParams, ...rest: unknown[]) => calls.callTool(copyOf(params), ...rest);
  return new Proxy(client, {
    get(target, property) {
      if (property === "callTool") return callTool;
      const value: unknown = Reflect.get(target, property, target);
      if (property === "experimental") return withUnpaidStreams(value);
      return typeof value === "function" && property !== "constructor" ? value.bind(target) : value;
    },
  });
}

/** Copies a call, so that what is bought is what is sent, whatever the caller does with its objects meanwhile. */
function copyOf({ arguments: args, _meta: meta, ...params }: ToolCallParams): ToolCallParams {
  return {
    ...params,
    ...(args !== undefined && { arguments: JSON.parse(canonicalJson(args)) as unknown }),
    ...(meta !== undefined && { _meta: { ...meta } }),
  };
}

/** This package's own options of a call; the MCP SDK has the others. */
const CALL_FIELDS: readonly (keyof CallPurchase)[] = ["idempotencyKey", "maxAmount"];

const OPTIONS: Readonly<Record<keyof McpPaymentOptions, true>> = {
  server: true,
  maxAmount: true,
  tools: true,
  subscribe: true,
};

const SUBSCRIBE: Readonly<Record<keyof ToolSubscriptions, true>> = {
  plans: true,
  maxOverage: true,
  until: true,
  periods: true,
  voucher: true,
  facilitator: true,
};

function purchasesOf(options: McpPaymentOptions): ToolPurchases {
  requireKnownFields(options, Object.keys(OPTIONS));
  const { server, tools, subscribe } = options;
  if (tools !== undefined && !(Array.isArray(tools) && tools.every((tool) => typeof tool === "string"))) {
    throw new ConfigError("tools must list the names of tools; leave it out to pay for all");
  }
  if (subscribe !== undefined) requireKnownFields(subscribe, Object.keys(SUBSCRIBE), "subscribe.");
  if (subscribe && !(Array.isArray(subscribe.plans) && subscribe.plans.every(isHash32))) {
    throw new ConfigError("subscribe.plans must list plan ids, each 0x and 64 hex digits");
  }
  return { server: serverIdentity(server), tools: tools && new Set(tools), subscriptions: subscribe };
}

const amountOf = (amount: Amount | undefined): bigint | undefined =>
  amount === undefined ? undefined : toAmount(amount, "maxAmount");

function lower(a: bigint | undefined, b: bigint | undefined): bigint | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a < b ? a : b;
}
