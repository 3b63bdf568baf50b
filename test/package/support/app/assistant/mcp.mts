import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { paidTool } from "turnpike/mcp/server";
import * as z from "zod";

const server = new McpServer({ name: "prices", version: "1.0.0" });
paidTool(
  server,
  "price",
  {
    serverId: "https://prices.example/mcp", // names this server alone
    description: "The price of a symbol, in dollars",
    inputSchema: { symbol: z.string() },
    price: "$0.01",
  },
  ({ symbol }) => ({ content: [{ type: "text", text: `${symbol} 97000` }] }),
);
await server.connect(new StdioServerTransport());
