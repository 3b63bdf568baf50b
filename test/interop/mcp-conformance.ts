/**
 * The protocol's own conformance suite at tools that this project registers, and at its client: neither changes what the
 * SDK says on the wire. The tools are free, since the suite pays nothing.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { acceptedContent, createRequestStateCodec, inputRequired, type McpServer } from "@modelcontextprotocol/server";
import { expect } from "chai";
import { buildSync } from "esbuild";
import { type PaidToolContext, paidTool } from "turnpike/mcp/server/v2";
import { createTestProvider } from "turnpike/testing";
import * as z from "zod";
import { REVISION, type ServedReplicas, serveReplicas } from "../sdk/mcp/support/served-v2";
import { bundled } from "../support/bundled";

const SUITE = join(__dirname, "node_modules/@modelcontextprotocol/conformance/dist/index.js");

const SERVER_SCENARIOS = [
  ...["server-stateless", "tools-list", "tools-call-simple-text", "tools-call-error", "tools-call-with-progress"],
  ...["http-header-validation", "input-required-result-basic-elicitation", "input-required-result-request-state"],
  ...["input-required-result-multi-round", "input-required-result-tampered-state", "input-required-result-result-type"],
];

const CLIENT_SCENARIOS = ["tools_call", "request-metadata", "http-standard-headers", "sep-2322-client-request-state"];

/** Bundles the suite: as published it needs a later Node, for what no scenario here uses. */
function suiteIn(folder: string): string {
  const outfile = join(folder, "conformance.cjs");
  const define = { "import.meta.url": JSON.stringify(pathToFileURL(SUITE).href) };
  const kind = { bundle: true, platform: "node", format: "cjs", target: "node20" } as const;
  buildSync({ ...kind, entryPoints: [SUITE], outfile, define, logLevel: "error" });
  return outfile;
}

const text = (said: string) => ({ content: [{ type: "text" as const, text: said }] });

describe("interop > MCP: the protocol's conformance suite", function () {
  this.timeout(120_000);
  let folder: string;
  let program: string;
  let served: ServedReplicas;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "turnpike-conformance-"));
    program = suiteIn(folder);
    const { provider } = createTestProvider();
    const codec = createRequestStateCodec<string>({ key: "a secret of this test, long enough to be one" });
    const sold = { provider, serverId: "https://tools.example/mcp", price: "$0.01" } as const;
    const options = { ...sold, description: "A tool of the suite", free: () => true };
    served = await serveReplicas([(server) => register(server, { options, codec })], {}, { requestState: codec });
  });
  after(async () => {
    await served?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  type Codec = ReturnType<typeof createRequestStateCodec<string>>;
  type Options = Parameters<typeof paidTool>[2];

  function register(server: McpServer, { options, codec }: { readonly options: Options; readonly codec: Codec }): void {
    const tool = (name: string, handler: Parameters<typeof paidTool>[3]) => paidTool(server, name, options, handler);
    const asking = (key: string, message: string, schema: z.ZodType) => ({
      inputRequests: { [key]: inputRequired.elicit({ message, requestedSchema: schema as never }) },
    });
    const named = z.object({ name: z.string() });
    const confirmed = z.object({ ok: z.boolean() });
    const answer = ({ mcpReq }: PaidToolContext, key: string) =>
      acceptedContent<Record<string, unknown>>(mcpReq.inputResponses, key);

    tool("test_simple_text", () => text("This is a simple text response for testing."));
    tool("test_error_handling", () => {
      throw new Error("This tool intentionally returns an error for testing");
    });
    tool("test_logging_tool", async (_args, { mcpReq }) => {
      await mcpReq.log("info", "A tool of the suite ran");
      return text("done");
    });
    tool("test_streaming_elicitation", () => inputRequired(asking("user_name", "What is your name?", named)));
    tool("test_missing_capability", () => {
      const messages = [{ role: "user" as const, content: { type: "text" as const, text: "Hello" } }];
      return inputRequired({ inputRequests: { greeting: inputRequired.createMessage({ messages, maxTokens: 50 }) } });
    });
    tool("test_tool_with_progress", async (_args, { mcpReq }) => {
      const progressToken = mcpReq._meta?.progressToken;
      for (const progress of progressToken === undefined ? [] : [0, 50, 100]) {
        await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
      }
      return text("done");
    });
    tool("test_input_required_result_elicitation", (_args, context) => {
      const given = answer(context, "user_name");
      return given ? text(`Hello, ${given.name}!`) : inputRequired(asking("user_name", "What is your name?", named));
    });
    for (const name of ["request_state", "tampered_state"]) {
      tool(`test_input_required_result_${name}`, async (_args, context) => {
        if (answer(context, "confirm") && context.mcpReq.requestState() === "asked") return text("state-ok");
        return inputRequired({
          ...asking("confirm", "Please confirm", confirmed),
          requestState: await codec.mint("asked"),
        });
      });
    }
    tool("test_input_required_result_multi_round", async (_args, context) => {
      const state = context.mcpReq.requestState();
      if (state === "round 2" && answer(context, "step2")) return text("done");
      if (state === "round 1" && answer(context, "step1")) {
        const color = z.object({ color: z.string() });
        return inputRequired({
          ...asking("step2", "Step 2: color?", color),
          requestState: await codec.mint("round 2"),
        });
      }
      return inputRequired({ ...asking("step1", "Step 1: name?", named), requestState: await codec.mint("round 1") });
    });
  }

  /** @throws with the suite's report where a check fails */
  async function run(args: readonly string[]): Promise<void> {
    const output = ["--spec-version", REVISION, "--output-dir", folder];
    try {
      await promisify(execFile)(process.execPath, [program, ...args, ...output], { cwd: folder });
    } catch (error) {
      const { stdout = "", stderr = "" } = error as { readonly stdout?: string; readonly stderr?: string };
      expect.fail(`${stdout}\n${stderr}`);
    }
  }

  for (const scenario of SERVER_SCENARIOS) {
    it(`finds no fault in paid tools: ${scenario}`, () => run(["server", "--url", served.url, "--scenario", scenario]));
  }

  for (const scenario of CLIENT_SCENARIOS) {
    it(`finds no fault in a client that pays: ${scenario}`, () => {
      const client = bundled(join(__dirname, "support/conformance-client.ts"), folder);
      return run(["client", "--command", `${process.execPath} ${client}`, "--scenario", scenario]);
    });
  }
});
