/** Calls each tool of the conformance suite's server once, by a client that an agent pays with. Its argument is the URL. */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createAgent, memoryLedger, walletFromKey } from "turnpike/agent";
import { wrapMcpClientWithPayment } from "turnpike/mcp/client/v2";
import { keccakText } from "turnpike/protocol";

async function main(server: string): Promise<void> {
  const agent = createAgent({
    wallet: walletFromKey(keccakText("a key of the conformance suite")),
    policy: { perPayment: 1n, perDay: 1n },
    facilitators: [],
    ledger: memoryLedger(),
  });
  const client = new Client(
    { name: "buyer", version: "1.0.0" },
    { versionNegotiation: { mode: "auto" }, capabilities: { elicitation: { form: {} } } },
  );
  client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { confirmed: true, ok: true } }));
  await client.connect(new StreamableHTTPClientTransport(new URL(server)));
  const paying = wrapMcpClientWithPayment(client, agent, { server });
  for (const { name } of (await paying.listTools()).tools) {
    await paying.callTool({ name, arguments: name === "add_numbers" ? { a: 5, b: 3 } : {} }).catch(console.error);
  }
  await client.close();
  await agent.close();
}

void main(process.argv[2] ?? "");
