/** A process that sells tools over stdio. Everything is in memory, and its keys are those of every test provider. */
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import * as z from "zod";
import { paidTool } from "../../../../sdk/src/mcp/server";
import { createTestProvider } from "../../../../sdk/src/testing";

const world = createTestProvider();
const { planId } = world.addPlan({});
const { id } = world.subscribe({ planId });
const server = new McpServer({ name: "tools", version: "1.0.0" });
let runs = 0;

server.registerTool("subscription", { description: "A subscription's secret id" }, () => ({
  content: [{ type: "text", text: id }],
}));
paidTool(
  server,
  "quote",
  {
    ...{ provider: world.provider, serverId: "stdio:tools", inputSchema: { symbol: z.string() } },
    pricing: [
      { type: "one-time", price: "$0.05" },
      { type: "subscription", plan: planId },
    ],
  },
  ({ symbol }, { payment }) => {
    runs++;
    return { content: [{ type: "text", text: `${symbol} ${payment.kind} ${runs}` }] };
  },
);
void server.connect(new StdioServerTransport());
