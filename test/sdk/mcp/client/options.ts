import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { expect } from "chai";
import { memoryLedger } from "turnpike/agent";
import { type McpPaymentOptions, type PaidCallOptions, receiptOf, wrapMcpClientWithPayment } from "turnpike/mcp/client";
import { rejection } from "../../agent/support/rejection";
import { agentFor, Chain } from "../../agent/support/world";
import { connectInMemory, serveOverHttp, specServer } from "../support/spec-server";

const weather = { name: "weather", arguments: { city: "Oslo" } };

describe("the options of an agent's MCP client", () => {
  const open: { close(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const each of open.splice(0)) await each.close();
  });

  async function shop() {
    const chain = new Chain();
    chain.nowSec = Math.floor(Date.now() / 1_000);
    const server = specServer(chain);
    const client = await connectInMemory(server);
    open.push(client);
    return { client, server, chain, subject: agentFor("http://127.0.0.1:1", { ledger: memoryLedger() }) };
  }

  for (const [given, says] of [
    [{ server: undefined }, /server must be/],
    [{ server: null }, /server must be/],
    [{ server: 7 }, /server must be/],
    [{ server: { toString: () => "weather" } }, /server must be/],
    [{ server: "weather", tools: null }, /tools must list/],
    [{ server: "weather", tools: "weather" }, /tools must list/],
    [{ server: "weather", tools: [1] }, /tools must list/],
    [{ server: "weather", maxAmount: null }, /maxAmount is null/],
    [{ server: "weather", maxAmout: 1 }, /maxAmout is no known option: did you mean maxAmount\?/],
    [{ server: "weather", subscribe: null }, /subscribe must be/],
    [{ server: "weather", subscribe: { plans: [], maxOverrage: 1n } }, /subscribe\.maxOverrage .*maxOverage/],
    [{ server: "weather", zzz: 1 }, /zzz is no known option; known are server/],
  ] as const) {
    it(`MB10 ${JSON.stringify(given, (_, value) => (typeof value === "bigint" ? `${value}` : value))} is refused`, async () => {
      const { client, subject } = await shop();
      const wrap = () => wrapMcpClientWithPayment(client, subject.agent, given as unknown as McpPaymentOptions);
      expect(wrap).to.throw(says).with.property("code", "ConfigError");
    });
  }

  for (const options of [undefined, null, "weather"]) {
    it(`MB10 ${String(options)} instead of options is refused`, async () => {
      const { client, subject } = await shop();
      const wrap = () => wrapMcpClientWithPayment(client, subject.agent, options as unknown as McpPaymentOptions);
      expect(wrap)
        .to.throw(/options must be an object/)
        .with.property("code", "ConfigError");
    });
  }

  for (const given of [{ maxamount: 1 }, { maxAmout: 1 }, { idempotencykey: "k" }, { idempotency_key: "k" }]) {
    const [name = ""] = Object.keys(given);
    it(`MB10 a call's misspelled ${name} is refused, and nothing is paid`, async () => {
      const { client, subject, server } = await shop();
      const paying = wrapMcpClientWithPayment(client, subject.agent, { server: "weather" });
      const error = await rejection(paying.callTool(weather, undefined, given as PaidCallOptions));
      expect([error.code, server.metas, subject.signed]).to.deep.equal(["ConfigError", [], []]);
      expect(error.message)
        .to.include(name)
        .and.match(/maxAmount|idempotencyKey/);
    });
  }

  it("passes the MCP SDK's own options on", async () => {
    const { client, subject } = await shop();
    const paying = wrapMcpClientWithPayment(client, subject.agent, { server: "weather", maxAmount: 10_000n });
    const given = { timeout: 30_000, maxTotalTimeout: 40_000, resetTimeoutOnProgress: true, onprogress: () => {} };
    expect(receiptOf(await paying.callTool(weather, undefined, given))?.amount).to.equal(10_000n);
  });

  it("MB11 a server whose URL has a key in its query: no error, receipt or list of payments shows it", async () => {
    const { server, subject } = await shop();
    const http = await serveOverHttp(server);
    const client = new Client({ name: "test", version: "1" });
    open.push(client, http);
    const url = `${http.url}?api_key=canary`;
    await client.connect(new StreamableHTTPClientTransport(new URL(url)) as Parameters<Client["connect"]>[0]);
    const other = wrapMcpClientWithPayment(client, subject.agent, { server: http.url });
    const error = await rejection(other.callTool(weather));
    expect([error.code, error.message.includes("canary")]).to.deep.equal(["ConfigError", false]);
    expect(error.message).to.include("another query");
    const paying = wrapMcpClientWithPayment(client, subject.agent, { server: url });
    const receipt = receiptOf(await paying.callTool(weather));
    const [payment] = await subject.agent.payments();
    const shown = `${http.url}#weather`;
    expect([receipt?.resource, payment?.resource]).to.deep.equal([shown, shown]);
  });
});
