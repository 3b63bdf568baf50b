/**
 * Connects to an MCP server in the newest revision that both know, lists its tools and calls them without a payment. Loads
 * the official client when it is used.
 */
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import * as z from "zod";
import { ConfigError, isTurnpikeError, type JsonObject, Unavailable } from "../../protocol";
import { isObject } from "../../protocol/arguments";
import { memberOf } from "../../protocol/headers";
import { CommandFailed, isUnreached, UsageError } from "../command-errors";
import { safeLine } from "../text";
import { VERSION } from "../version";
import { sampleOf } from "./sample";
import type { ToolAnswer } from "./tool-result";

/** Which server is asked. */
export type ServerAddress =
  | { readonly url: string; readonly headers: Readonly<Record<string, string>>; readonly fetch: typeof fetch }
  | { readonly command: string; readonly args: readonly string[]; readonly cwd: string };

/** What is asked. */
export interface CallPlan {
  /** one tool alone; undefined: each that is listed */
  readonly tool: string | undefined;
  /** of `tool`; undefined: made from its input schema */
  readonly args: JsonObject | undefined;
  readonly signal: AbortSignal;
  /** Gets each line that a command writes to standard error. */
  onServerLine(line: string): void;
}

/** A tool that was called, or passed over. */
export interface CalledTool {
  readonly name: string;
  readonly hasOutputSchema: boolean;
  readonly answer: ToolAnswer;
}

const TIMEOUT_MS = 30_000;

const MAX_TOOLS = 1_000;

/** A page may be empty. */
const MAX_PAGES = 100;

const METHOD_NOT_FOUND = -32_601;

/** Of the SDK's own errors. */
const REQUEST_TIMEOUT = "REQUEST_TIMEOUT";

type Sdk = Awaited<ReturnType<typeof loadSdk>>;
type Client = InstanceType<Sdk["Client"]>;

/** What a server has answered. */
export interface CalledServer {
  /** of the protocol, as the server and this client have agreed on it */
  readonly revision: string;
  readonly tools: readonly CalledTool[];
}

/**
 * Calls each tool once, or the named one. It sends no payment and no credential.
 * @returns undefined where the server does not answer as an MCP server
 * @throws ConfigError when `@modelcontextprotocol/client` is not installed
 * @throws UsageError for a command that cannot be started
 * @throws CommandFailed where the server has no tool of that name
 * @throws Unavailable, or what fetch throws, where the server does not answer
 */
export async function callTools(address: ServerAddress, plan: CallPlan): Promise<CalledServer | undefined> {
  const sdk = await loadSdk();
  const info = { name: "turnpike-validate", version: VERSION };
  const client = new sdk.Client(info, { versionNegotiation: { mode: "auto" } });
  try {
    const listed = await listTools(sdk, client, address, plan);
    if (listed === undefined) return undefined;
    const chosen = plan.tool === undefined ? listed : listed.filter(({ name }) => name === plan.tool);
    if (plan.tool !== undefined && chosen.length === 0) throw unknownTool(listed);
    const tools: CalledTool[] = [];
    for (const tool of chosen) tools.push(await callTool(sdk, client, tool, plan));
    return { revision: client.getNegotiatedProtocolVersion() ?? "", tools };
  } finally {
    await client.close();
  }
}

/** Loads the optional peer: the other commands work without it. */
async function loadSdk() {
  try {
    const [{ Client, StreamableHTTPClientTransport }, { StdioClientTransport }, { AjvJsonSchemaValidator }] =
      await Promise.all([
        import("@modelcontextprotocol/client"),
        import("@modelcontextprotocol/client/stdio"),
        import("@modelcontextprotocol/client/validators/ajv"),
      ]);
    return { Client, StreamableHTTPClientTransport, StdioClientTransport, AjvJsonSchemaValidator };
  } catch (cause) {
    if (!String(cause).includes("@modelcontextprotocol/client")) throw cause;
    throw new ConfigError(
      "validate needs the package @modelcontextprotocol/client for MCP servers: run npx -y -p turnpike -p @modelcontextprotocol/client turnpike validate",
      { cause },
    );
  }
}

/** Results as they come: what is wrong with them is what is looked for. */
const anyResult = z.looseObject({});

const toolsPage = z.looseObject({
  tools: z.array(
    z.looseObject({
      name: z.string(),
      inputSchema: z.unknown().optional(),
      outputSchema: z.unknown().optional(),
      annotations: z.looseObject({ destructiveHint: z.boolean().optional() }).optional(),
    }),
  ),
  nextCursor: z.string().optional(),
});

interface ListedTool {
  readonly name: string;
  readonly inputSchema: unknown;
  readonly outputSchema: JsonObject | undefined;
  readonly isDestructive: boolean;
}

async function listTools(
  sdk: Sdk,
  client: Client,
  address: ServerAddress,
  plan: CallPlan,
): Promise<readonly ListedTool[] | undefined> {
  try {
    await client.connect(transportFor(sdk, address, plan), optionsOf(plan));
    const tools: ListedTool[] = [];
    let cursor: string | undefined;
    let pages = 0;
    do {
      const params = cursor === undefined ? {} : { cursor };
      const page = await client.request({ method: "tools/list", params }, toolsPage, optionsOf(plan));
      tools.push(...page.tools.map(listedTool));
      cursor = page.nextCursor;
    } while (cursor !== undefined && ++pages < MAX_PAGES && tools.length < MAX_TOOLS);
    return tools;
  } catch (error) {
    return withoutTools(error, plan.signal);
  }
}

/** The SDK keeps its listener on a request's signal: each request gets a signal of its own. */
const optionsOf = ({ signal }: CallPlan) => ({ timeout: TIMEOUT_MS, signal: AbortSignal.any([signal]) });

/** @returns no tools for a server that has none, undefined for what is no MCP server; else throws */
function withoutTools(error: unknown, signal: AbortSignal): readonly ListedTool[] | undefined {
  signal.throwIfAborted();
  const code = memberOfError(error, "code");
  if (code === METHOD_NOT_FOUND) return [];
  if (code === REQUEST_TIMEOUT) {
    throw new Unavailable(`The server did not answer within ${TIMEOUT_MS / 1_000} s.`, { cause: error });
  }
  if (code === "ENOENT" || code === "EACCES") {
    throw new UsageError("The command of --stdio cannot be started.", "Check that it exists and may be run.");
  }
  // Of the probe for the revision.
  const cause = memberOfError(error, "cause");
  if (isUnreached(cause)) throw cause;
  if (isUnreached(error) || isTurnpikeError(error)) throw error;
  return undefined;
}

function transportFor(sdk: Sdk, address: ServerAddress, plan: CallPlan) {
  if ("url" in address) {
    const { url, headers, fetch } = address;
    return new sdk.StreamableHTTPClientTransport(new URL(url), {
      requestInit: { headers: { ...headers }, redirect: "manual" },
      fetch: (input, init) => fetch(input, init),
    });
  }
  // The SDK passes on no variables of the environment but those that programs need to start: no key is among them.
  const { command, args, cwd } = address;
  const transport = new sdk.StdioClientTransport({ command, args: [...args], cwd, stderr: "pipe" });
  createInterface({ input: transport.stderr as Readable }).on("line", (line) => plan.onServerLine(line));
  return transport;
}

function listedTool({
  name,
  inputSchema,
  outputSchema,
  annotations,
}: z.output<typeof toolsPage>["tools"][number]): ListedTool {
  return {
    name,
    inputSchema,
    isDestructive: annotations?.destructiveHint === true,
    outputSchema: isObject(outputSchema) ? outputSchema : undefined,
  };
}

async function callTool(sdk: Sdk, client: Client, tool: ListedTool, plan: CallPlan): Promise<CalledTool> {
  const { name, inputSchema, outputSchema, isDestructive } = tool;
  const called = (answer: ToolAnswer): CalledTool => ({ name, hasOutputSchema: outputSchema !== undefined, answer });
  if (isDestructive && plan.tool === undefined) return called({ kind: "not_called" });
  const args = (plan.args ?? sampleOf(inputSchema)) as Record<string, unknown>;
  try {
    // Not `callTool`, which throws for an ask that the tool's outputSchema refuses, and hides it.
    const request = { method: "tools/call" as const, params: { name, arguments: args } };
    const options = { ...optionsOf(plan), allowInputRequired: true };
    const result: JsonObject = await client.request(request, anyResult, options);
    return called({ kind: "result", result, schemaRefuses: refuses(sdk, outputSchema, result.structuredContent) });
  } catch (error) {
    plan.signal.throwIfAborted();
    if (isUnreached(error)) throw error;
    const code = memberOfError(error, "code");
    return called({
      kind: "error",
      data: memberOfError(error, "data"),
      code: typeof code === "number" ? code : undefined,
    });
  }
}

function refuses(sdk: Sdk, schema: JsonObject | undefined, value: unknown): boolean {
  if (schema === undefined || value === undefined) return false;
  try {
    return !new sdk.AjvJsonSchemaValidator().getValidator(schema)(value).valid;
  } catch {
    // Clients that compile the schema throw as well.
    return true;
  }
}

const memberOfError = (error: unknown, key: string): unknown =>
  error instanceof Error ? memberOf(error, key) : undefined;

function unknownTool(listed: readonly ListedTool[]): CommandFailed {
  const names = listed.map(({ name }) => safeLine(name, 64)).join(", ");
  return new CommandFailed(
    "The server lists no tool of the name that --tool gives.",
    names === "" ? "It lists no tools at all." : `It lists ${safeLine(names, 1_000)}.`,
  );
}
