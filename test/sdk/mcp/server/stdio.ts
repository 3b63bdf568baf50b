import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import type { Readable } from "node:stream";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { expect } from "chai";
import { encodeJsonHeader, HEADER } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import { bundled } from "../../../support/bundled";
import { askOf, call, paying, textOf } from "../support/served";

describe("mcp > server > stdio, by examples/mcp-server.ts", () => {
  const BTC = { tool: "price", args: { symbol: "BTC" } };
  let folder = "";
  let client: Client;
  let subscriptionId = "";

  before(async () => {
    // Below the workspace, so that its packages are found.
    folder = mkdtempSync(join("cache", "mcp-"));
    const program = bundled("test/sdk/mcp/support/stdio-server.ts", folder);
    const transport = new StdioClientTransport({ command: process.execPath, args: [program], stderr: "pipe" });
    const lines = createInterface({ input: transport.stderr as Readable });
    const firstLine = new Promise<string>((resolve) => lines.once("line", resolve));
    client = new Client({ name: "buyer", version: "1.0.0" });
    await client.connect(transport);
    subscriptionId = await firstLine;
  });
  after(async () => {
    await client.close();
    rmSync(folder, { recursive: true });
  });

  it("serves a free tool, asks for a paid one, and MC1 runs it once for one payment", async () => {
    expect(textOf(await call(client, { tool: "symbols" }))).to.equal("BTC ETH");
    expect(askOf(await call(client, BTC)).required.resource.url).to.equal("mcp://tool/price");
    const meta = await paying(client, BTC);
    const result = await call(client, { ...BTC, meta });
    expect(textOf(result)).to.equal("97000");
    expect(result._meta?.["x402/payment-response"]).to.include({ success: true });
    expect((await call(client, { ...BTC, meta }))._meta?.["turnpike/replayed"]).to.equal(true);
  });

  it("reads a subscription's secret id from the pipe", async () => {
    const result = await call(client, { ...BTC, meta: { "turnpike/subscription": subscriptionId } });
    expect(textOf(result)).to.equal("97000");
    const unknown = await call(client, { ...BTC, meta: { "turnpike/subscription": `${subscriptionId}0` } });
    expect(askOf(unknown).quote.error).to.equal("SubscriptionNotActive");
  });

  it("charges what the tool has used", async () => {
    const called = { tool: "summarise", args: { text: "seven words that are a short text" } };
    const header = encodeJsonHeader(askOf(await call(client, called)).required);
    const meta = { "x402/payment": createTestProvider().payUpto(header)[HEADER.paymentSignatureV2] };
    const result = await call(client, { ...called, meta });
    expect(result._meta?.["x402/payment-response"]).to.include({ success: true, amount: "7000" });
  });

  it("docs/guides/mcp.md shows this program", () => {
    const shown = /```ts\n(\/\*\* An MCP server[\s\S]*?)```/.exec(readFileSync("docs/guides/mcp.md", "utf8"))?.[1];
    expect(shown).to.equal(readFileSync("examples/mcp-server.ts", "utf8"));
  });
});
