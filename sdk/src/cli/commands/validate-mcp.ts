/** The part of `turnpike validate` that checks MCP servers: what their tools answer to calls without a payment. */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { type JsonObject, parseStrictBody } from "../../protocol";
import { isObject } from "../../protocol/arguments";
import type { CommandContext } from "../command";
import { UsageError } from "../command-errors";
import { safeLine } from "../text";
import { type Dialect, type Problem, Problems } from "../validate/problem";
import { callTools, type ServerAddress } from "../validate/tool-calls";
import { checkTool, type ToolReport } from "../validate/tool-result";
import { readRequest } from "./request";

/** What `validate` finds of an MCP server. */
export interface McpReport {
  /** the URL, or the command with its arguments */
  readonly server: { readonly url: string } | { readonly command: readonly string[] };
  /** of the protocol; undefined for what is no MCP server */
  readonly revision?: string;
  readonly tools: readonly Omit<ToolReport, "problems">[];
  readonly problems: readonly Problem[];
}

/** Checks an MCP server. @param required the versions that each ask must have */
export async function validateMcp(context: CommandContext, required: readonly Dialect[]): Promise<McpReport> {
  const { args, io, output } = context;
  const tool = args.value("tool");
  if (args.has("arguments") && tool === undefined) {
    throw new UsageError("--arguments is given without --tool.", "Name the tool: --tool NAME --arguments JSON.");
  }
  const { server, address } = await serverOf(context);
  const called = await callTools(address, {
    tool,
    args: await argumentsOf(io.cwd, args.value("arguments")),
    signal: io.signal,
    onServerLine: (line) => output.note(safeLine(line)),
  });
  const whole = new Problems();
  if (called === undefined) {
    whole.add("mcp", "not_mcp");
    return { server, tools: [], problems: whole.found };
  }
  const { revision } = called;
  const reports = called.tools.map(({ name, answer, hasOutputSchema }) => checkTool(name, answer, hasOutputSchema));
  const paid = reports.filter(({ state }) => state === "paid");
  if (paid.length === 0) whole.add("mcp", "no_paid_tool");
  for (const { name, versions } of paid) {
    for (const version of required) if (!versions.includes(version)) whole.add("mcp", "version_required", name);
  }
  const tools = reports.map(({ name, state, versions }) => ({ name, state, versions }));
  return { server, revision, tools, problems: [...whole.found, ...reports.flatMap(({ problems }) => problems)] };
}

/** Returns what a person reads about a server and its tools; the problems follow. */
export function mcpLines({ server, revision, tools }: McpReport): string[] {
  const name = "url" in server ? server.url : server.command.join(" ");
  const texts = tools.map(({ name, state, versions }) => {
    const more = versions.length === 0 ? "" : ` (${versions.join(", ")})`;
    return `tool ${safeLine(name)}: ${state.replaceAll("_", " ")}${more}`;
  });
  const spoken = revision === undefined ? "" : `revision ${safeLine(revision, 32)}, `;
  return [`MCP ${safeLine(name)}: ${spoken}${tools.length} tools`, ...texts];
}

async function serverOf(
  context: CommandContext,
): Promise<{ readonly server: McpReport["server"]; readonly address: ServerAddress }> {
  const { args, io } = context;
  for (const flag of ["method", "data"]) {
    if (args.has(flag)) throw new UsageError(`--${flag} is of HTTP requests.`, "Leave it out with --mcp and --stdio.");
  }
  if (!args.has("stdio")) {
    const { url, init } = await readRequest(context);
    return { server: { url }, address: { url, headers: init.headers, fetch: io.fetch } };
  }
  if (args.has("mcp") || args.has("header")) {
    throw new UsageError("--stdio starts a command: it has no --mcp and no --header.", "Leave them out.");
  }
  const [command, ...rest] = args.words("URL");
  return { server: { command: [command, ...rest] }, address: { command, args: rest, cwd: io.cwd } };
}

async function argumentsOf(cwd: string, text: string | undefined): Promise<JsonObject | undefined> {
  if (text === undefined) return undefined;
  const file = text.startsWith("@") ? resolve(cwd, text.slice(1)) : undefined;
  const read = file === undefined ? text : await readFile(file, "utf8").catch(() => "");
  const parsed = parseStrictBody(read);
  if (isObject(parsed)) return parsed;
  throw new UsageError("--arguments is no JSON object.", `Write it as --arguments '{"symbol": "BTC"}', or @FILE.`);
}
