import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { createAgent, walletFromKey } from "turnpike/agent";
import { fileLedger } from "turnpike/agent/file-ledger";
import { receiptOf, wrapMcpClientWithPayment } from "turnpike/mcp/client";

const server = "https://tools.example/mcp"; // names the server in the ledger: always the same
const client = new Client({ name: "assistant", version: "1.0.0" });
await client.connect(new StreamableHTTPClientTransport(new URL(server)));

const agent = createAgent({
  wallet: walletFromKey(process.env.AGENT_KEY as `0x${string}`),
  policy: { perPayment: 100_000n, perDay: 2_000_000n },
  facilitators: [process.env.TURNPIKE_FACILITATOR_URL ?? ""],
  ledger: fileLedger("./agent.ledger"),
});
const paying = wrapMcpClientWithPayment(client, agent, { server, maxAmount: 50_000n });
const result = await paying.callTool({ name: "price", arguments: { symbol: "BTC" } });
console.log(result.content, receiptOf(result)?.amount);
