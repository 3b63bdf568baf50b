import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { CallToolResult, McpError } from "@modelcontextprotocol/sdk/types.js";
import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import { receiptOf, wrapMcpClientWithPayment } from "turnpike/mcp/client";
import { paidTool } from "turnpike/mcp/server";
import { type ServedTools, ServerError, serveTools } from "../sdk/mcp/support/served";
import { agentOf } from "./support/clients";
import { mppx } from "./support/stock";
import { CHAIN_ID, type InteropWorld, startInteropWorld } from "./support/world";

const PRICE = 50_000n;

/** Tool calls that are paid by MPP: the stock client at this project's tools, and this project's client at stock tools. */
describe("interop > MCP: tools that are sold by MPP", function () {
  // Real blocks, on machines that may be slow.
  this.timeout(240_000);
  let world: InteropWorld;
  const open: { close(): Promise<unknown> }[] = [];
  let runs = 0;

  before(async () => {
    world = await startInteropWorld();
  });
  beforeEach(() => {
    runs = 0;
  });
  after(async () => {
    for (const each of open.reverse()) await each.close();
    await world?.stop();
  });

  async function connect(served: ServedTools): Promise<Client> {
    open.push(served);
    const client = new Client({ name: "stock", version: "1.0.0" });
    await client.connect(new StreamableHTTPClientTransport(new URL(served.url)) as never);
    open.push(client);
    return client;
  }

  it("the client of mppx pays for a tool once, and gets its receipt", async () => {
    const provider: Provider = world.provider({ mpp: "Authorization", facilitatorWaitMs: 60_000 });
    open.push(provider);
    const quote = { provider, serverId: "https://tools.example/mcp", pricing: [{ type: "one-time", amount: PRICE }] };
    const served = await serveTools((server) => {
      paidTool(
        server,
        "quote",
        quote as never,
        (() => {
          runs++;
          return { content: [{ type: "text", text: "7" }] };
        }) as never,
      );
    });
    await provider.ready();
    const payer = await world.payer();
    const { name, version } = world.usdc;
    const { evm } = mppx.client();
    const charge = evm.charge({
      account: payer.account,
      authorization: { name, version },
      networks: [CHAIN_ID],
    });
    const client = mppx.mcpClient().wrap(await connect(served), { methods: [charge] });
    const result = (await client.callTool({ name: "quote", arguments: {} })) as CallToolResult;
    expect(result.content).to.deep.equal([{ type: "text", text: "7" }]);
    expect(result._meta?.["org.paymentauth/receipt"]).to.include({ method: "evm", status: "success" });
    expect([await world.transfers(payer.address), runs]).to.deep.equal([[PRICE], 1]);
  });

  it("this project's client pays for a tool of mppx, once", async () => {
    const { Mppx, evm } = mppx.server();
    const { address: currency, name, version, decimals } = world.usdc;
    const charge = evm.charge({
      ...{ currency, chainId: CHAIN_ID, decimals, authorization: { name, version }, recipient: world.payTo },
      x402: { facilitator: world.facilitatorUrl },
    });
    const methods = [{ ...charge, transport: mppx.mcpServer() }];
    const stock = Mppx.create({ methods, secretKey: "a secret of this test, long enough", realm: "stock" });
    const served = await serveTools((server) => {
      server.registerTool("quote", { description: "A price" }, (async (extra: unknown) => {
        const charged = await stock.charge({ amount: "0.05" })(extra as never);
        if (charged.status === 402) {
          // Its error is of another copy of the SDK.
          const { code, message, data } = charged.challenge as never as McpError;
          throw new ServerError(code, message, data);
        }
        runs++;
        return charged.withReceipt({ content: [{ type: "text", text: "7" }] } as never);
      }) as never);
    });
    const payer = await world.payer();
    const agent = agentOf(world, payer);
    open.push(agent);
    const paying = wrapMcpClientWithPayment((await connect(served)) as never, agent, { server: served.url });
    const result = await paying.callTool({ name: "quote", arguments: {} });
    expect(result.content).to.deep.equal([{ type: "text", text: "7" }]);
    expect(receiptOf(result)).to.include({ amount: PRICE, dialect: "mpp" });
    expect([await world.transfers(payer.address), runs]).to.deep.equal([[PRICE], 1]);
  });
});
