/** Tools of the Model Context Protocol: a server that an assistant starts itself, over stdio. */
import path from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { receiptOf, wrapMcpClientWithPayment } from "turnpike/mcp/client";
import type { Cast } from "../cast";
import { testKey } from "../chain";
import { mustBe } from "../narrate";
import type { World } from "../world";

const ROOT = path.resolve(__dirname, "../../..");

export async function walkTools({ world, narrator, ada }: Cast): Promise<void> {
  await narrator.step(
    "A tool of an MCP server",
    "An assistant calls tools of examples/mcp-server.ts, which runs as its child. One is free; for another one Ada pays 0.01 inside the call.",
    async () => {
      const client = new Client({ name: "assistant", version: "1.0.0" });
      await client.connect(toolServer(world));
      try {
        const paying = wrapMcpClientWithPayment(client, ada.agent, { server: "prices", maxAmount: 10_000 });
        const call = async (name: string, args: Readonly<Record<string, unknown>> = {}) => {
          const result = await paying.callTool({ name, arguments: args });
          const [first] = result.content as { text?: string }[];
          const amount = receiptOf(result)?.amount;
          narrator.say(`   -> ${name}(${JSON.stringify(args)})\n   <- ${first?.text}  paid: ${amount ?? "nothing"}`);
          return { text: first?.text, amount };
        };
        const before = await world.contracts.balanceOf(ada.address);
        mustBe((await call("symbols")).text, "BTC ETH", "what the free tool answers");
        const paid = await call("price", { symbol: "BTC" });
        mustBe(paid.text, "97000", "what the paid tool answers");
        mustBe(paid.amount, 10_000n, "the receipt's amount");
        mustBe(before - (await world.contracts.balanceOf(ada.address)), 10_000n, "what Ada paid");
      } finally {
        await client.close();
      }
    },
  );
}

/** The example as a program of its own, configured by its environment. */
function toolServer({ gateOptions, home, plans, providerAccount }: World): StdioClientTransport {
  const { network, rpcUrl, turnpike, token, facilitator } = gateOptions;
  return new StdioClientTransport({
    command: process.execPath,
    args: ["-r", "./tools/typescript.cjs", "examples/mcp-server.ts"],
    cwd: ROOT,
    env: {
      TURNPIKE_NETWORK: network,
      TURNPIKE_RPC_URL: rpcUrl,
      TURNPIKE_ADDRESS: turnpike,
      TURNPIKE_TOKEN: token.address,
      TURNPIKE_TOKEN_DECIMALS: String(token.decimals),
      TURNPIKE_TOKEN_CURRENCY: "USD",
      TURNPIKE_PAY_TO: providerAccount.address,
      TURNPIKE_FACILITATOR_URL: facilitator.url,
      TURNPIKE_FACILITATOR_SIGNERS: facilitator.signers.join(","),
      TURNPIKE_SECRET: testKey("tools' gate"),
      TURNPIKE_CLAIMS: path.join(home, "tools"),
      PLAN: plans.reader,
    },
  });
}
