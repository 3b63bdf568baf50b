import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { expect } from "chai";
import { bundled } from "../../../support/bundled";
import { askOf, call, paying, textOf } from "../support/served";

describe("mcp > server > stdio", () => {
  const ABC = { args: { symbol: "ABC" } };
  let folder = "";
  let client: Client;

  before(async () => {
    // Below the workspace, so that its packages are found.
    folder = mkdtempSync(join("cache", "mcp-"));
    const program = bundled("test/sdk/mcp/support/stdio-server.ts", folder);
    client = new Client({ name: "buyer", version: "1.0.0" });
    await client.connect(new StdioClientTransport({ command: process.execPath, args: [program] }));
  });
  after(async () => {
    await client.close();
    rmSync(folder, { recursive: true });
  });

  it("asks, serves a paid call, and MC1 runs it once", async () => {
    expect(askOf(await call(client, ABC)).required.resource.url).to.equal("mcp://tool/quote");
    const meta = await paying(client, ABC);
    const result = await call(client, { ...ABC, meta });
    expect(textOf(result)).to.equal("ABC one-time 1");
    expect(result._meta?.["x402/payment-response"]).to.include({ success: true });
    expect(askOf(await call(client, { ...ABC, meta })).quote).to.include({ error: "PaymentAlreadyUsed" });
  });

  it("reads a subscription's secret id from the pipe", async () => {
    const id = textOf(await call(client, { tool: "subscription" }));
    const result = await call(client, { ...ABC, meta: { "turnpike/subscription": id } });
    expect(textOf(result)).to.match(/^ABC subscription \d$/);
  });
});
