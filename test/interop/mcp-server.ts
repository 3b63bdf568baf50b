import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import { type PaidToolOptions, paidTool } from "turnpike/mcp/server";
import type { PaymentRequiredWire } from "turnpike/protocol";
import * as z from "zod";
import { askOf, type ServedTools, serveTools } from "../sdk/mcp/support/served";
import { recordPaid } from "./support/matrix";
import { agents, baseSepolia, v1, viem } from "./support/stock";
import { type InteropWorld, type Payer, startInteropWorld } from "./support/world";

const PRICE = 50_000n;

const AT_TOOL = { server: "turnpike paidTool, MCP v1", offer: "0.05" } as const;

/** Stock MCP clients at this project's tools, over streamable HTTP, with this project's Facilitator. */
describe("interop > MCP: stock clients at this project's tools", function () {
  // Real blocks, on machines that may be slow.
  this.timeout(240_000);
  let world: InteropWorld;
  let provider: Provider;
  let served: ServedTools;
  let runs = 0;
  let isFailing = false;

  before(async () => {
    world = await startInteropWorld();
    const { usdc } = world;
    const token = { ...usdc, currency: "USD" } as const;
    // Slow machines: an outage is not what is tested.
    const patient = { facilitatorWaitMs: 60_000 };
    provider = world.provider({ token, verify: "onchain", networkNames: "x402-v1", ...patient });
    const symbol = { symbol: z.string() };
    const shared = { provider, serverId: "https://tools.example/mcp", inputSchema: symbol };
    const pricing = [{ type: "one-time", amount: PRICE }] as const;
    const quote: PaidToolOptions<typeof symbol> = { ...shared, pricing, description: "A price" };
    const report = { ...shared, pricing, outputSchema: { price: z.number() } };
    served = await serveTools((server) => {
      paidTool(server, "quote", quote, ({ symbol }) => {
        runs++;
        return { isError: isFailing, content: [{ type: "text", text: `${symbol}: 7` }] };
      });
      paidTool(server, "report", report, () => ({ content: [], structuredContent: { price: 7 } }));
    });
    await provider.ready();
  });
  after(async () => {
    await served?.close();
    await provider?.close();
    await world?.stop();
  });
  beforeEach(() => {
    runs = 0;
    isFailing = false;
  });

  async function connect(): Promise<Client> {
    const client = new Client({ name: "stock", version: "1.0.0" });
    await client.connect(new StreamableHTTPClientTransport(new URL(served.url)) as never);
    return client;
  }

  async function agentsClient(payer: Payer, maxPaymentValue = PRICE) {
    const client = await connect();
    const paying = agents().withX402Client(client, {
      account: payer.account,
      network: "eip155:84532",
      maxPaymentValue,
    });
    const call = (name: string) => paying.callTool(null, { name, arguments: { symbol: "ABC" } });
    return { call, paying, close: () => client.close() };
  }

  it("MC1 the client of agents/x402 pays for a tool, and gets its result and receipt", async () => {
    const payer = await world.payer();
    await recordPaid("mcp-server", { ...AT_TOOL, client: "agents/x402" }, async () => {
      const { call, close } = await agentsClient(payer);
      const result = await call("quote");
      await close();
      expect(result.content).to.deep.equal([{ type: "text", text: "ABC: 7" }]);
      expect(result._meta?.["x402/payment-response"]).to.include({ success: true, network: "eip155:84532" });
      expect(await world.transfers(payer.address)).to.deep.equal([PRICE]);
      expect(runs).to.equal(1);
    });
  });

  it("the client of agents/x402, having listed the tools, pays for one with an output schema", async () => {
    const payer = await world.payer();
    const { call, paying, close } = await agentsClient(payer);
    await paying.listTools();
    const result = await call("report");
    await close();
    expect(result.structuredContent).to.deep.equal({ price: 7 });
    expect(await world.transfers(payer.address)).to.deep.equal([PRICE]);
  });

  it("MC3 the client of agents/x402 is not charged for a tool that fails", async () => {
    const payer = await world.payer();
    isFailing = true;
    const { call, close } = await agentsClient(payer);
    const result = await call("quote");
    await close();
    expect(result.isError).to.equal(true);
    expect(runs).to.equal(1);
    expect(await world.transfers(payer.address)).to.deep.equal([]);
  });

  it("the client of agents/x402 pays nothing above its own limit", async () => {
    const payer = await world.payer();
    const { call, close } = await agentsClient(payer, PRICE - 1n);
    const result = await call("quote");
    await close();
    expect(result.isError).to.equal(true);
    expect(runs).to.equal(0);
    expect(await world.transfers(payer.address)).to.deep.equal([]);
  });

  it("MC1 a payment as x402-mcp's client sends it, by the helper of x402 that it signs with, is served", async () => {
    const payer = await world.payer();
    const client = await connect();
    const params = { name: "quote", arguments: { symbol: "ABC" } };
    const asked = (await client.callTool(params)) as CallToolResult;
    const { accepts } = askOf(asked).quote as unknown as PaymentRequiredWire;
    const wallet = viem()
      .createWalletClient({ account: payer.account, chain: baseSepolia(), transport: viem().http(world.chain.rpcUrl) })
      .extend(viem().publicActions);
    const header = await v1.client().createPaymentHeader(wallet, 1, accepts[0] as object);
    await recordPaid("mcp-server", { ...AT_TOOL, client: "x402-mcp" }, async () => {
      const result = (await client.callTool({ ...params, _meta: { "x402.payment": header } })) as CallToolResult;
      await client.close();
      expect(result.content).to.deep.equal([{ type: "text", text: "ABC: 7" }]);
      expect(result._meta?.["x402.payment-response"]).to.include({ success: true, network: "base-sepolia" });
      expect(await world.transfers(payer.address)).to.deep.equal([PRICE]);
    });
  });
});
