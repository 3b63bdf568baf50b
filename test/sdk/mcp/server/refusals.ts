import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { expect } from "chai";
import { paidTool } from "turnpike/mcp/server";
import { createTestProvider } from "turnpike/testing";
import * as z from "zod";
import { askOf, call, paying, type ServedTools, serveTools, textOf } from "../support/served";

describe("mcp > server > refusals", () => {
  const SERVER = "https://tools.example/mcp";
  const world = createTestProvider({ publicUrl: SERVER });
  const { planId } = world.addPlan({});
  const plan = { type: "subscription", plan: planId } as const;
  const price = { type: "one-time", price: "$0.05" } as const;
  const shared = { provider: world.provider, serverId: SERVER, pricing: [price] };
  const secret = `0x${"ab".repeat(52)}`;
  const throws = (): never => {
    throw new Error(`a bug\nnear ${secret}`);
  };
  /** each tool's fault is its provider's own */
  const faulty = {
    "price-throws": { ...shared, pricing: [{ type: "one-time", amount: throws } as const] },
    "price-is-zero": { ...shared, pricing: [{ type: "one-time", amount: () => 0n } as const] },
    "free-throws": { ...shared, free: throws },
    "authorize-throws": { ...shared, authorize: throws },
  };
  let onError: ((error: Error) => void) | undefined;
  let released: Promise<unknown> = Promise.resolve();
  let onRun = (): void => undefined;

  function register(server: McpServer): void {
    if (onError) server.server.onerror = onError;
    const done = () => ({ content: [] });
    for (const [name, options] of Object.entries(faulty)) paidTool(server, name, options, done);
    paidTool(server, "planned", { ...shared, pricing: [plan] }, done);
    paidTool(server, "small", { ...shared, inputSchema: { a: z.string() }, maxArgumentBytes: 100 }, done);
    paidTool(server, "slow", shared, async () => {
      onRun();
      await released;
      return done();
    });
  }

  let served: ServedTools;
  let client: Client;

  before(async () => {
    served = await serveTools(register);
    client = await served.connect();
  });
  after(() => served.close());

  const refusalOf = (result: CallToolResult) => result._meta?.["turnpike/error"] as Record<string, unknown>;

  /** @returns the process's warnings during a call */
  async function warningsOf(run: () => Promise<unknown>): Promise<string[]> {
    const warnings: string[] = [];
    const listener = (warning: Error) => warnings.push(warning.message);
    process.on("warning", listener);
    try {
      await run();
      // Warnings are emitted in a later turn.
      await new Promise((resolve) => setImmediate(resolve));
    } finally {
      process.off("warning", listener);
    }
    return warnings;
  }

  for (const tool of Object.keys(faulty)) {
    it(`MC11 logs one line, without an id or a key, where the provider is at fault: ${tool}`, async () => {
      const meta = tool === "authorize-throws" ? await paying(client, { tool }) : {};
      let result: CallToolResult | undefined;
      const warnings = await warningsOf(async () => {
        result = await call(client, { tool, meta });
      });
      expect(refusalOf(result as CallToolResult)).to.include({ error: "Internal" });
      expect(textOf(result as CallToolResult)).to.not.include("a bug");
      // What a provider's own function threw is logged by its option, too, and no more of it.
      if (tool !== "price-is-zero") for (const line of warnings) expect(line).to.include("a bug near <hidden>");
      const lines = warnings.filter((line) => line.startsWith("The tool "));
      expect(lines, "one line").to.have.length(1);
      expect(lines[0]).to.match(new RegExp(`^The tool ${tool} answers Internal: .+$`));
      expect(lines[0]).to.include(tool === "price-is-zero" ? "0" : "a bug near <hidden>");
    });
  }

  it("MC11 reports the provider's fault to the server's onerror where it is set, and logs nothing", async () => {
    const reported: string[] = [];
    onError = ({ cause }) => reported.push((cause as Error).message);
    const buyer = await served.connect();
    onError = undefined;
    expect(await warningsOf(() => call(buyer, { tool: "free-throws" }))).to.deep.equal([]);
    expect(reported).to.have.length(1);
    expect(reported[0]).to.include("a bug");
  });

  it("names the place of a subscription's id in _meta, and no header", async () => {
    const asked = await call(client, { tool: "planned" });
    const { hoodlayer } = askOf(asked).required.extensions as { hoodlayer: { info: object } };
    expect(hoodlayer.info).to.include({ meta: "turnpike/subscription" });
    const malformed = await call(client, { tool: "planned", meta: { "turnpike/subscription": "0x12" } });
    expect(askOf(malformed).quote.message).to.include('_meta["turnpike/subscription"] is no subscription id');
    const noPayment = await call(client, { tool: "small", args: { a: "" }, meta: { "x402/payment": "none" } });
    expect(askOf(noPayment).quote.message).to.include("the payment in _meta holds no payment");
    for (const each of [asked, malformed, noPayment]) {
      expect(JSON.stringify(each)).to.not.match(/X-Service-Sub|X-PAYMENT|PAYMENT-SIGNATURE/i);
    }
  });

  it("MC8 names the limit that a call exceeds", async () => {
    const args = { a: "x".repeat(200) };
    expect(refusalOf(await call(client, { tool: "small", args }))).to.deep.include({
      error: "PayloadTooLarge",
      message: "arguments: must be at most 100 bytes (maxArgumentBytes)",
    });
    const large = { x402Version: 2, payload: "x".repeat(8_192) };
    for (const meta of [{ "x402/payment": large }, { "turnpike/subscription": "x".repeat(8_193) }]) {
      const refused = refusalOf(await call(client, { tool: "planned", meta }));
      expect(refused).to.include({ error: "PayloadTooLarge" });
      expect(refused.message).to.include("must be at most 8192 bytes");
    }
  });

  it("refuses text that is no base64 as malformed, and not as two payments", async () => {
    for (const key of ["x402/payment", "turnpike/subscription"]) {
      const meta = { [key]: JSON.stringify({ x402Version: 2, payload: {} }) };
      expect(refusalOf(await call(client, { tool: "planned", meta }))).to.include({ error: "InvalidRequest" });
    }
  });

  it("says when a payment that is in use may be sent again", async () => {
    const meta = await paying(client, { tool: "slow" });
    let release = (): void => undefined;
    released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const running = new Promise<void>((resolve) => {
      onRun = resolve;
    });
    const first = call(client, { tool: "slow", meta });
    await running;
    const refused = refusalOf(await call(client, { tool: "slow", meta }));
    release();
    await first;
    expect(refused).to.include({ error: "ProofInFlight", retryable: true });
    expect(refused.retryAfterSec).to.be.a("number").that.is.greaterThan(0);
  });

  it("refuses an option that paidTool does not have, and names it", () => {
    const server = { registerTool: () => expect.fail("registered") } as unknown as McpServer;
    for (const option of ["bogus", "bind", "maxBodyBytes", "page"]) {
      const options = { ...shared, [option]: true };
      const add = () => paidTool(server, "a", options, () => ({ content: [] }));
      expect(add).to.throw(`paidTool: "a".${option} is no option`);
    }
  });
});
