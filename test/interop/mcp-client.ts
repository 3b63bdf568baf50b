import { serve } from "@hono/node-server";
import { expect } from "chai";
import type { Agent } from "turnpike/agent";
import { receiptOf, wrapMcpClientWithPayment } from "turnpike/mcp/client";
import { paidTool } from "turnpike/mcp/server";
import { addressOfKey, type Hex, isTurnpikeError } from "turnpike/protocol";
import { testKey } from "../../scripts/sandbox/chain";
import { Client, InMemoryTransport, McpServer, StreamableHTTPClientTransport } from "../sdk/mcp/support/sdk";
import { closeServer } from "../support/gate";
import { agentOf } from "./support/clients";
import { recordPaid } from "./support/matrix";
import { mcpServers } from "./support/stock";
import { STOCK_FACILITATORS, type StockFacilitator } from "./support/stock-facilitators";
import { type InteropWorld, type Payer, startInteropWorld } from "./support/world";

const REPLY = { content: [{ type: "text" as const, text: "fine" }] };

/** Paid tools of stock packages and of this project, bought by this project's agent within its policy. */
describe("interop > MCP: paid tools bought by the agent", function () {
  // Many real blocks, on machines that may be slow.
  this.timeout(240_000);
  let world: InteropWorld;
  let isFailing = false;
  const open: (() => Promise<unknown>)[] = [];
  const facilitators = new Map<string, StockFacilitator>();

  before(async () => {
    world = await startInteropWorld();
  });
  after(async () => {
    for (const close of open.reverse()) await close();
    for (const facilitator of facilitators.values()) await facilitator.stop();
    await world?.stop();
  });
  beforeEach(() => {
    isFailing = false;
  });

  async function facilitatorUrl(name: string): Promise<string> {
    const facilitator = facilitators.get(name) ?? (await STOCK_FACILITATORS[name]?.(world));
    if (!facilitator) throw new TypeError(`no such facilitator: ${name}`);
    facilitators.set(name, facilitator);
    return facilitator.url;
  }

  const run = async () => (isFailing ? { ...REPLY, isError: true } : { ...REPLY });

  async function inMemory(server: McpServer): Promise<Client> {
    const client = new Client({ name: "buyer", version: "1.0.0" });
    const [ours, theirs] = InMemoryTransport.createLinkedPair();
    await server.connect(theirs);
    await client.connect(ours);
    open.push(() => client.close());
    return client;
  }

  const stock = {
    async "agents/x402"() {
      const server = new McpServer({ name: "tools", version: "1.0.0" });
      const url = await facilitatorUrl("@x402/core 2.27.0");
      const paid = mcpServers.agents().withX402(server, {
        network: "base-sepolia",
        recipient: world.payTo,
        facilitator: { url },
      });
      paid.paidTool("cheap", "Cheap", 0.01, {}, {}, run);
      paid.paidTool("dear", "Dear", 0.11, {}, {}, run);
      return { client: await inMemory(server), server: "stock", dialect: "x402-v2", facilitator: "@x402/core 2.27.0" };
    },
    async "x402-mcp/server"() {
      const url = await facilitatorUrl("x402 1.2.0");
      const handle = mcpServers.x402().createPaidMcpHandler(
        (server) => {
          server.paidTool("cheap", "Cheap", { price: 0.01 }, {}, {}, run);
          server.paidTool("dear", "Dear", { price: 0.11 }, {}, {}, run);
        },
        {},
        { basePath: "", disableSse: true, network: "base-sepolia", recipient: world.payTo, facilitator: { url } },
      );
      const http = await new Promise<{ server: ReturnType<typeof serve>; port: number }>((resolve) => {
        const server = serve({ fetch: handle, port: 0, hostname: "127.0.0.1" }, ({ port }) =>
          resolve({ server, port }),
        );
      });
      open.push(() => closeServer(http.server as never));
      const address = `http://127.0.0.1:${http.port}/mcp`;
      const client = new Client({ name: "buyer", version: "1.0.0" });
      await client.connect(new StreamableHTTPClientTransport(new URL(address)) as never);
      open.push(() => client.close());
      return { client, server: address, dialect: "x402-v1", facilitator: "x402 1.2.0" };
    },
  };

  async function settledIn(payer: Payer) {
    return world.transfers(payer.address);
  }

  for (const [name, start] of Object.entries(stock)) {
    it(`${name}: is paid within the policy, once, also after a failed run`, async () => {
      const { client, server, dialect, facilitator } = await start();
      const payer = await world.payer();
      const agent: Agent = agentOf(world, payer, 100_000n);
      open.push(() => agent.close());
      const paying = wrapMcpClientWithPayment(client, agent, { server });
      await paying.listTools();

      await recordPaid(
        "mcp-client",
        { client: "turnpike agent", server: name, facilitator, offer: "0.01" },
        async () => {
          const result = await paying.callTool({ name: "cheap", arguments: {} });
          expect(result.content).to.deep.equal(REPLY.content);
          expect(receiptOf(result)).to.include({ amount: 10_000n, dialect, payTo: world.payTo });
          expect(await settledIn(payer)).to.deep.equal([10_000n]);
        },
      );

      const refused = await paying.callTool({ name: "dear", arguments: {} }).catch((error: unknown) => error);
      expect(isTurnpikeError(refused) && [refused.code, refused.reason]).to.deep.equal(["PolicyRefused", "limit"]);

      isFailing = true;
      expect((await paying.callTool({ name: "cheap", arguments: {} })).isError).to.equal(true);
      expect(await settledIn(payer), "nothing settles for a failure").to.deep.equal([10_000n]);
      isFailing = false;
      const served = await paying.callTool({ name: "cheap", arguments: {} });
      expect(receiptOf(served)?.resumed, "the payment of the failed run").to.equal(true);
      expect(await settledIn(payer)).to.deep.equal([10_000n, 10_000n]);
    });
  }

  it("this project's server: by a proof of the Facilitator, and by subscription", async () => {
    const { usdc, planId } = world;
    const key = testKey("interop statements") as Hex;
    const provider = world.provider({ token: { ...usdc, currency: "USD" }, offerReceipt: { key } });
    open.push(() => provider.close());
    const server = new McpServer({ name: "tools", version: "1.0.0" });
    const shared = { provider, serverId: "stdio:own" };
    paidTool(server, "once", { ...shared, pricing: [{ type: "one-time", amount: 20_000n }] }, run);
    paidTool(server, "planned", { ...shared, pricing: [{ type: "subscription", plan: planId }] }, run);
    const client = await inMemory(server);
    const payer = await world.payer();
    const agent = agentOf(world, payer, 20_000_000n);
    open.push(() => agent.close());

    const paying = wrapMcpClientWithPayment(client, agent, { server: "own", subscribe: { plans: [planId] } });
    await recordPaid(
      "mcp-client",
      { client: "turnpike agent", server: "turnpike paidTool, MCP v1", offer: "0.02" },
      async () => {
        const once = await paying.callTool({ name: "once", arguments: {} });
        expect(receiptOf(once)).to.include({ amount: 20_000n, dialect: "turnpike", resource: "stdio:own#once" });
        const by = { signer: addressOfKey(key), fault: undefined };
        expect(receiptOf(once)?.signedOffer).to.include(by);
        expect(receiptOf(once)?.signedReceipt).to.include(by);
      },
    );
    isFailing = true;
    expect((await paying.callTool({ name: "once", arguments: {} })).isError).to.equal(true);
    isFailing = false;
    const again = await paying.callTool({ name: "once", arguments: {} });
    expect([again.isError, receiptOf(again)?.resumed], "the payment of the failed run").to.deep.equal([
      undefined,
      true,
    ]);
    expect(await settledIn(payer)).to.deep.equal([20_000n, 20_000n]);
    const planned = await paying.callTool({ name: "planned", arguments: {} });
    expect([planned.content, receiptOf(planned)]).to.deep.equal([REPLY.content, undefined]);
    const [subscription, ...others] = await agent.list();
    expect([subscription?.planId, subscription?.origins, others]).to.deep.equal([planId, ["stdio:own"], []]);
  });
});
