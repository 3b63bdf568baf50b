import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { resolve } from "node:path";
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import {
  CallToolRequestSchema,
  LATEST_PROTOCOL_VERSION,
  ListToolsRequestSchema,
  McpError,
} from "@modelcontextprotocol/sdk/types.js";
import type { McpServer as NewMcpServer } from "@modelcontextprotocol/server";
import { expect } from "chai";
import { paidTool } from "turnpike/mcp/server";
import { paidTool as newPaidTool } from "turnpike/mcp/server/v2";
import { createTestProvider } from "turnpike/testing";
import * as z from "zod";
import { MCP_PROBLEMS } from "../../../sdk/src/cli/validate/problem";
import { bundled } from "../../support/bundled";
import { closeServer, listen } from "../../support/gate";
import { serveTools } from "../mcp/support/served";
import { REVISION, serveReplicas } from "../mcp/support/served-v2";
import { expectCode, removeTerminals, terminal } from "./support/run";

const TOKEN = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const PAYEE = "0x1111111111111111111111111111111111111111";
const ENTRY = {
  scheme: "exact",
  network: "eip155:84532",
  amount: "10000",
  asset: TOKEN,
  payTo: PAYEE,
  maxTimeoutSeconds: 60,
  extra: { name: "USDC", version: "2" },
};

const requiredOf = (tool: string, change: object = {}) => ({
  x402Version: 2,
  resource: { url: `mcp://tool/${tool}` },
  accepts: [{ ...ENTRY, ...change }],
});
const textOf = (value: unknown) => [{ type: "text", text: JSON.stringify(value) }];

/** An ask in every form. */
const askOf = (tool: string, change: object = {}) => {
  const required = requiredOf(tool, change);
  return { isError: true, content: textOf(required), structuredContent: required, _meta: { "x402/error": required } };
};

interface Tool {
  readonly listed?: object;
  /** the problems to name; none: the tool is well-formed */
  readonly finds: readonly string[];
  readonly state?: string;
  answer(name: string): object;
}

const PRICE_SCHEMA = { type: "object", properties: { price: { type: "number" } }, required: ["price"] };

/** What each tool answers, and what is wrong with it: `part code where`. */
const TOOLS: Readonly<Record<string, Tool>> = {
  good: { finds: [], answer: (name) => askOf(name) },
  wrapped: {
    finds: [],
    answer: (name) => {
      const data = requiredOf(name);
      return { ...askOf(name), content: textOf({ "x402/error": { code: 402, message: "pay", data } }) };
    },
  },
  v1_terms: {
    finds: [],
    answer: () => {
      const { network: _, amount, ...entry } = ENTRY;
      const more = { network: "base-sepolia", maxAmountRequired: amount, description: "", mimeType: "" };
      const required = { x402Version: 1, accepts: [{ ...entry, ...more, resource: "mcp://tool/v1_terms" }] };
      const forms = { content: textOf(required), structuredContent: required };
      return { isError: true, ...forms, _meta: { "x402/error": required } };
    },
  },
  free: { finds: [], state: "free", answer: () => ({ content: [{ type: "text", text: "hello" }] }) },
  destroys: {
    finds: ["mcp not_called destroys"],
    state: "not_called",
    listed: { annotations: { destructiveHint: true } },
    answer: () => {
      throw new Error("it was called");
    },
  },
  fails: {
    finds: ["mcp tool_failed fails"],
    state: "failed",
    answer: () => ({ isError: true, content: [{ type: "text", text: "no such symbol" }] }),
  },
  throws: {
    finds: ["mcp tool_failed throws"],
    state: "failed",
    answer: () => {
      throw new McpError(-32_603, "broken");
    },
  },
  rpc: {
    finds: ["mcp rpc_error rpc"],
    answer: (name) => {
      throw new McpError(402, "Payment required", requiredOf(name));
    },
  },
  success: { finds: ["mcp not_an_error success"], answer: (name) => ({ ...askOf(name), isError: false }) },
  no_text: { finds: ["mcp no_text no_text"], answer: (name) => ({ ...askOf(name), content: [] }) },
  twice: {
    finds: ["v2 ambiguous_json twice.content[0].text", "mcp no_text twice"],
    answer: (name) => {
      const text = JSON.stringify(requiredOf(name)).replace("{", '{"x402Version":2,');
      return { ...askOf(name), content: [{ type: "text", text }] };
    },
  },
  text_alone: {
    finds: ["mcp no_structured_content text_alone", "mcp no_meta text_alone"],
    answer: (name) => ({ isError: true, content: textOf(requiredOf(name)) }),
  },
  schema: {
    finds: ["mcp output_schema schema"],
    listed: { outputSchema: PRICE_SCHEMA },
    answer: (name) => askOf(name),
  },
  schema_and_text: {
    finds: [],
    listed: { outputSchema: PRICE_SCHEMA },
    answer: (name) => ({ ...askOf(name), structuredContent: undefined }),
  },
  two_prices: {
    finds: ["mcp forms_disagree two_prices"],
    answer: (name) => ({ ...askOf(name), content: textOf(requiredOf(name, { amount: "9" })) }),
  },
  elsewhere: {
    finds: ["v2 tool_resource elsewhere.structuredContent.resource.url"],
    answer: () => askOf("other"),
  },
  cheap: {
    finds: ["v2 amount cheap.structuredContent.accepts[0].amount"],
    answer: (name) => askOf(name, { amount: "0.01" }),
  },
  in_text: {
    finds: ["mcp forms_disagree in_text", "v2 pay_to in_text.content[0].text.accepts[0].payTo"],
    answer: (name) => ({ ...askOf(name), content: textOf(requiredOf(name, { payTo: "0x1" })) }),
  },
};

describe("command line > validate MCP servers", () => {
  const closes: (() => Promise<unknown>)[] = [];
  /** of every call: the arguments and `_meta` */
  const calls: { readonly name: string; readonly args: unknown; readonly meta: unknown }[] = [];
  afterEach(async () => {
    removeTerminals();
    calls.length = 0;
    await Promise.all(closes.splice(0).map((close) => close()));
  });

  async function urlOf(serving: Promise<{ readonly url: string; close(): Promise<void> }>): Promise<string> {
    const tools = await serving;
    closes.push(() => tools.close());
    return tools.url;
  }
  const served = (register: (server: McpServer) => void) => urlOf(serveTools(register));
  const servedNew = (register: (server: NewMcpServer) => void) =>
    urlOf(serveReplicas([register], { legacy: "reject" }));

  const listing = (tools: Readonly<Record<string, Tool>>) => ({
    tools: Object.entries(tools).map(([name, { listed }]) => ({ name, inputSchema: { type: "object" }, ...listed })),
  });

  interface CallParams {
    readonly name: string;
    readonly arguments?: unknown;
    readonly _meta?: Readonly<Record<string, unknown>> | undefined;
  }

  /** Answers a call, of which the revision's own part of `_meta` is not kept. */
  const answering =
    (tools: Readonly<Record<string, Tool>>) =>
    ({ params: { name, arguments: args, _meta } }: { readonly params: CallParams }) => {
      const own = Object.entries(_meta ?? {}).filter(([key]) => !key.startsWith("io.modelcontextprotocol/"));
      calls.push({ name, args, meta: Object.fromEntries(own) });
      return (tools[name]?.answer(name) ?? {}) as never;
    };

  /** By revision: serves tools as they are, with nothing of this project between. */
  const REVISIONS: Readonly<Record<string, (tools: Readonly<Record<string, Tool>>) => Promise<string>>> = {
    [LATEST_PROTOCOL_VERSION]: (tools) =>
      served(({ server }) => {
        server.registerCapabilities({ tools: {} });
        server.setRequestHandler(ListToolsRequestSchema, () => listing(tools) as never);
        server.setRequestHandler(CallToolRequestSchema, answering(tools));
      }),
    [REVISION]: (tools) =>
      servedNew(({ server }) => {
        server.registerCapabilities({ tools: {} });
        server.setRequestHandler("tools/list", () => listing(tools) as never);
        server.setRequestHandler("tools/call", answering(tools));
      }),
  };

  const validate = (...argv: string[]) => terminal().run("validate", "--json", ...argv);

  for (const [revision, raw] of Object.entries(REVISIONS)) {
    it(`names exactly what is wrong with each tool's ask, and calls no destructive tool: ${revision}`, async () => {
      const ran = await validate(await raw(TOOLS), "--mcp");
      expectCode(ran, 1);
      const { tools, problems, wellFormed, revision: spoken } = ran.json();
      expect([wellFormed, spoken]).to.deep.equal([false, revision]);
      for (const [name, { finds, state = "paid" }] of Object.entries(TOOLS)) {
        const found = (problems as { part: string; code: string; where: string }[])
          .filter(({ where }) => where === name || where.startsWith(`${name}.`))
          .map(({ part, code, where }) => `${part} ${code} ${where}`);
        expect(found, name).to.have.members(finds);
        expect(
          tools.find((tool: { name: string }) => tool.name === name),
          name,
        ).to.include({ name, state });
      }
    });

    it(`calls one tool with the arguments that are given, and sends no payment: ${revision}`, async () => {
      const { good, cheap } = TOOLS as { good: Tool; cheap: Tool };
      const url = await raw({ good, cheap });
      const ran = await terminal().run("validate", url, "--mcp", "--tool", "good", "--arguments", '{"symbol": "BTC"}');
      expectCode(ran, 0);
      expect(ran.out).to.equal(`MCP ${url}/: revision ${revision}, 1 tools\ntool good: paid (v2)\n`);
      expect(calls).to.deep.equal([{ name: "good", args: { symbol: "BTC" }, meta: {} }]);
      const unknown = await validate(url, "--mcp", "--tool", "best");
      expectCode(unknown, 1);
      expect(unknown.json().error.remedy).to.equal("It lists good, cheap.");
    });

    it(`ends with 1 where no tool asks for a payment: ${revision}`, async () => {
      const free = await validate(await raw({ free: TOOLS.free as Tool }), "--mcp");
      expectCode(free, 1);
      expect(free.json().problems.map(({ code }: { code: string }) => code)).to.deep.equal(["no_paid_tool"]);
    });
  }

  it("asks for no more pages where a list of tools has no end", async () => {
    let pages = 0;
    const url = await servedNew(({ server }) => {
      server.registerCapabilities({ tools: {} });
      server.setRequestHandler("tools/list", () => ({ tools: [], nextCursor: `page ${++pages}` }) as never);
    });
    const ran = await validate(url, "--mcp");
    expectCode(ran, 1);
    expect(ran.json().problems.map(({ code }: { code: string }) => code)).to.deep.equal(["no_paid_tool"]);
    expect(pages).to.equal(100);
  });

  it("has a malformed ask for every problem of MCP", () => {
    const named = new Set(Object.values(TOOLS).flatMap(({ finds }) => finds.map((find) => find.split(" ")[1])));
    const rest = Object.keys(MCP_PROBLEMS).filter((code) => !named.has(code));
    expect(rest).to.deep.equal(["not_mcp", "no_paid_tool"]);
  });

  it("finds nothing wrong with this project's own paid tools, and pays nothing", async () => {
    const { provider } = createTestProvider();
    const shared = { provider, serverId: "https://tools.example/mcp" };
    const runs: string[] = [];
    const symbol = { symbol: z.enum(["BTC", "ETH"]), days: z.number().int().min(3) };
    const price = "$0.05" as const;
    const quote = { ...shared, inputSchema: symbol, price };
    const report = { ...quote, outputSchema: { price: z.number() } };
    const plan = { ...shared, pricing: [{ type: "subscription", plan: `0x${"5a".repeat(32)}` } as const] };
    const url = await served((server) => {
      paidTool(server, "quote", quote, ({ symbol }) => ({ content: [{ type: "text", text: `${runs.push(symbol)}` }] }));
      paidTool(server, "report", report, () => ({ content: [], structuredContent: { price: runs.push("report") } }));
      paidTool(server, "read", plan, () => ({ content: [{ type: "text", text: `${runs.push("read")}` }] }));
    });
    const ran = await validate(url, "--mcp", "--require", "v2");
    expectCode(ran, 0);
    const { tools, problems } = ran.json();
    expect(problems).to.deep.equal([]);
    expect(tools).to.deep.equal(["quote", "report", "read"].map((name) => ({ name, state: "paid", versions: ["v2"] })));
    expect(runs).to.deep.equal([]);
    expectCode(await validate(url, "--mcp", "--require", "v1"), 1);
    const inNew = { ...shared, inputSchema: z.object(symbol), outputSchema: z.object({ price: z.number() }), price };
    const newUrl = await servedNew((server) => {
      newPaidTool(server, "report", inNew, () => ({ content: [], structuredContent: { price: runs.push("report") } }));
    });
    const ranNew = await validate(newUrl, "--mcp", "--require", "v2");
    expectCode(ranNew, 0);
    expect([ranNew.json().problems, ranNew.json().revision, runs]).to.deep.equal([[], REVISION, []]);
  });

  it("makes the required arguments from the tool's input schema", async () => {
    const properties = {
      symbol: { type: "string", enum: ["BTC"] },
      days: { type: "integer", minimum: 3 },
      to: { type: "object", required: ["email"], properties: { email: { type: "string", format: "email" } } },
      note: { type: "string" },
    };
    const inputSchema = { type: "object", required: ["symbol", "days", "to"], properties };
    const raw = REVISIONS[REVISION] as (tools: Readonly<Record<string, Tool>>) => Promise<string>;
    await validate(await raw({ good: { ...(TOOLS.good as Tool), listed: { inputSchema } } }), "--mcp");
    expect(calls[0]?.args).to.deep.equal({ symbol: "BTC", days: 3, to: { email: "someone@example.com" } });
  });

  it("ends with 1 where the server is no MCP server", async () => {
    const page = createServer((_request, response) => response.end("<h1>hello</h1>"));
    closes.push(() => closeServer(page));
    const other = await validate(await listen(page), "--mcp");
    expectCode(other, 1);
    expect(other.json().problems.map(({ code }: { code: string }) => code)).to.deep.equal(["not_mcp"]);
  });

  it("ends with 5 where the server cannot be reached", async () => {
    const gone = createServer();
    const url = await listen(gone);
    await closeServer(gone);
    expectCode(await validate(url, "--mcp"), 5);
  });

  it("starts a server by its command, without the wallet's key in its environment", async () => {
    const folder = mkdtempSync("cache/validate-");
    closes.push(async () => rmSync(folder, { recursive: true }));
    const program = resolve(bundled("test/sdk/mcp/support/stdio-server.ts", folder));
    const ran = await validate("--stdio", "--require", "v2", "--", process.execPath, program);
    expectCode(ran, 0);
    const { tools, command } = ran.json();
    expect(command).to.deep.equal([process.execPath, program]);
    expect(tools.map(({ name, state }: { name: string; state: string }) => `${name} ${state}`)).to.deep.equal([
      "symbols free",
      "price paid",
      "summarise paid",
    ]);
    const shows = `require("fs").writeFileSync(${JSON.stringify(resolve(folder, "env"))}, Object.keys(process.env).join())`;
    expectCode(await validate("--stdio", "--", process.execPath, "-e", shows), 1);
    expect(readFileSync(resolve(folder, "env"), "utf8")).not.to.contain("TURNPIKE");
  });

  for (const [what, argv] of Object.entries({
    "a command that does not exist": ["--stdio", "--", "no-such-program-here"],
    "arguments that are no object": ["http://localhost:1/", "--mcp", "--tool", "a", "--arguments", "[1]"],
    "arguments without a tool": ["http://localhost:1/", "--mcp", "--arguments", "{}"],
    "a tool of an HTTP server": ["http://localhost:1/", "--tool", "a"],
    "a body": ["http://localhost:1/", "--mcp", "--data", "{}"],
    "two URLs": ["http://localhost:1/", "http://localhost:2/"],
    "a command with --mcp": ["--stdio", "--mcp", "--", "node"],
    "no command": ["--stdio"],
  })) {
    it(`refuses ${what} with 2`, async () => {
      const ran = await validate(...argv);
      expectCode(ran, 2);
      expect(ran.json().error.code).to.equal("Usage");
    });
  }
});
