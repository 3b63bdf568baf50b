/** An MCP server over stdio: one tool is free, one is sold by the call or by plan, and one charges what it has used. */
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { paidTool } from "turnpike/mcp/server";
import * as z from "zod";

const PRICES: Readonly<Record<string, string>> = { BTC: "97000", ETH: "3400" };

const server = new McpServer({ name: "prices", version: "1.0.0" });
const serverId = "https://prices.example/mcp";

server.registerTool("symbols", { description: "The symbols that have a price" }, () => ({
  content: [{ type: "text", text: Object.keys(PRICES).join(" ") }],
}));

paidTool(
  server,
  "price",
  {
    serverId,
    description: "The price of a symbol, in dollars",
    inputSchema: { symbol: z.string() },
    pricing: [
      { type: "one-time", price: "$0.01" },
      { type: "subscription", plan: process.env.PLAN ?? "" },
    ],
  },
  ({ symbol }) => {
    const price = PRICES[symbol];
    // Costs nothing: the same payment buys the next attempt.
    if (price === undefined) return { isError: true, content: [{ type: "text", text: `${symbol} has no price` }] };
    return { content: [{ type: "text", text: price }] };
  },
);

paidTool(
  server,
  "summarise",
  {
    serverId,
    description: "Summarises a text; costs $0.001 for each word of the summary, $0.10 at most",
    inputSchema: { text: z.string() },
    pricing: [{ type: "upto", max: "$0.10" }],
  },
  ({ text }, { payment }) => {
    const words = text.split(/\s+/).slice(0, 20);
    payment.charge(`$${(words.length / 1_000).toFixed(3)}`);
    return { content: [{ type: "text", text: words.join(" ") }] };
  },
);

void server.connect(new StdioServerTransport());
