import { Unavailable } from "../../protocol";
import { boundedText, Deadline } from "../../protocol/exchange";
import type { Command, CommandContext } from "../command";
import { UsageError } from "../command-errors";
import { EXIT_CODES } from "../exit-codes";
import { safeLine } from "../text";
import { checkAnswer, type Report } from "../validate/check";
import type { Dialect, Problem } from "../validate/problem";
import { type Ask, checkSite } from "../validate/site";
import { REQUEST_FLAGS, readRequest, URL_WORD } from "./request";
import { mcpLines, validateMcp } from "./validate-mcp";

const MAX_BODY_BYTES = 65_536;

const TIMEOUT_MS = 30_000;

/** The command `validate`. */
export const validateCommand: Command = {
  name: "validate",
  summary:
    "check that a server's 402, those of a site, or an MCP server's ask, is well-formed for x402 v1, v2 and MPP; pays nothing",
  words: [
    {
      name: URL_WORD.name,
      about: `${URL_WORD.about}; with --stdio the server's command and its arguments, after --`,
      isRest: true,
    },
  ],
  flags: {
    ...REQUEST_FLAGS,
    require: {
      value: "VERSIONS",
      about: "what must be there: v1, v2, mpp or several, such as v1,v2; of MCP servers v1 and v2",
    },
    openapi: { about: "the URL is a site: read its /openapi.json, and call each priced operation without a payment" },
    mcp: { about: "the URL is an MCP server over streamable HTTP: list its tools and call them without a payment" },
    stdio: { about: "start an MCP server by its command, and do the same" },
    tool: {
      value: "NAME",
      about: "with --mcp or --stdio: call this tool alone; default: each that is not destructive",
    },
    arguments: { value: "JSON", about: "the arguments of --tool, or @FILE; default: made from its input schema" },
  },
  examples: [
    "npx turnpike validate https://api.example/report",
    "npx turnpike validate http://localhost:3000/quote --require v1,v2",
    "npx turnpike validate https://api.example --openapi",
    "npx turnpike validate https://tools.example/mcp --mcp",
    'npx turnpike validate --stdio --tool price --arguments \'{"symbol": "BTC"}\' -- node server.js',
  ],
  async run(context) {
    const { args, output } = context;
    const isMcp = args.has("mcp") || args.has("stdio");
    const required = dialectsOf(args.value("require"));
    if (isMcp && required.includes("mpp")) {
      throw new UsageError("--require mpp is of HTTP requests.", "With --mcp and --stdio write v1, v2 or v1,v2.");
    }
    if (!isMcp && (args.has("tool") || args.has("arguments"))) {
      throw new UsageError("--tool and --arguments are of MCP servers.", "Add --mcp or --stdio.");
    }
    if (!args.has("stdio") && args.words("URL").length > 1) {
      throw new UsageError("More than one URL is given.", "Give one. With --stdio the words are a command.");
    }
    if (args.has("openapi")) refuseBeside(context);
    const find = isMcp ? mcpFindings : args.has("openapi") ? siteFindings : httpFindings;
    const { facts, problems, lines } = await find(context, required);
    const isFine = problems.every(({ level }) => level === "warning");
    output.result({ ...facts, wellFormed: isFine, problems }, [...lines, ...problems.map(problemLine)]);
    return isFine ? EXIT_CODES.done.code : EXIT_CODES.failed.code;
  },
};

interface Findings {
  /** of the document that --json prints */
  readonly facts: object;
  readonly problems: readonly Problem[];
  /** what a person reads before the problems */
  readonly lines: readonly string[];
}

async function mcpFindings(context: CommandContext, required: readonly Dialect[]): Promise<Findings> {
  const report = await validateMcp(context, required);
  const { server, revision, tools, problems } = report;
  return { facts: { ...server, revision, tools }, problems, lines: mcpLines(report) };
}

async function httpFindings(context: CommandContext, required: readonly Dialect[]): Promise<Findings> {
  const { io } = context;
  const { url, init } = await readRequest(context);
  const { response, body } = await asker(io)(url, init, MAX_BODY_BYTES);
  const { status, headers } = response;
  const { problems, prices: _prices, ...report } = checkAnswer({ requested: url, status, headers, body }, required);
  return { facts: { url, method: init.method, ...report }, problems, lines: [lineOf(url, init.method, report)] };
}

/** @throws UsageError for a flag that a site's operations do not have */
function refuseBeside({ args }: CommandContext): void {
  const other = ["mcp", "stdio", "method", "data"].find((flag) => args.has(flag));
  if (other === undefined) return;
  throw new UsageError(`--openapi checks a whole site, and has no --${other}.`, "Leave one of them out.");
}

async function siteFindings(context: CommandContext, required: readonly Dialect[]): Promise<Findings> {
  const { url, init } = await readRequest(context);
  const ask = asker(context.io);
  const withHeaders: Ask = (target, own, maxBytes) =>
    ask(target, { ...own, headers: { ...init.headers, ...(own.headers as Record<string, string>) } }, maxBytes);
  const { document, operations, problems } = await checkSite(url, withHeaders, required);
  const lines = operations.map(({ method, path, price, protocols, status, versions }) => {
    const { currency = "USD", min, max } = price ?? {};
    const range = min === max ? min : `${min ?? "0"} to ${max ?? "any"}`;
    const shown = range === undefined ? "price as asked" : `${range} ${currency}`;
    const answered =
      status === undefined || versions === undefined
        ? "not called"
        : [`HTTP ${status}`, ...statesOf(versions).filter((state) => !state.endsWith("absent"))].join(", ");
    return safeLine(`${method} ${path}: ${shown}, ${protocols.join(", ") || "no protocol"}, ${answered}`);
  });
  const first = `${safeLine(document)}: ${operations.length} priced operations`;
  return { facts: { document, operations }, problems, lines: [first, ...lines] };
}

/** Sends requests that have to be answered in time, and follows no redirect. */
const asker =
  (io: CommandContext["io"]): Ask =>
  async (url, init, maxBytes) => {
    const deadline = new Deadline(TIMEOUT_MS, io.signal);
    try {
      const response = await io.fetch(url, { ...init, redirect: "manual", signal: deadline.signal });
      return { response, body: await boundedText(response, maxBytes) };
    } catch (error) {
      if (!deadline.isOver) throw error;
      throw new Unavailable(`The server did not answer within ${TIMEOUT_MS / 1_000} s.`, { cause: error });
    } finally {
      deadline.end();
    }
  };

function dialectsOf(text: string | undefined): Dialect[] {
  const names = text?.split(",").map((name) => name.trim()) ?? [];
  const isDialect = (name: string): name is Dialect => name === "v1" || name === "v2" || name === "mpp";
  const dialects = names.filter(isDialect);
  if (dialects.length === names.length) return dialects;
  throw new UsageError("--require names an unknown version.", "Write v1, v2, mpp or several, such as v1,v2.");
}

function lineOf(url: string, method: string, { status, versions }: Omit<Report, "problems" | "prices">): string {
  return `${method} ${safeLine(url)}: HTTP ${status}, ${statesOf(versions).join(", ")}`;
}

const statesOf = (versions: Report["versions"]): string[] =>
  Object.entries(versions).map(([dialect, state]) => `${dialect} ${state}`);

function problemLine({ level, part, code, where, about }: Problem): string {
  return `${level}: ${part} ${code}${where === "" ? "" : ` at ${safeLine(where)}`}: ${about}`;
}
