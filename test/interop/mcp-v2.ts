import type { Client } from "@modelcontextprotocol/client";
import { expect } from "chai";
import { memoryClaims, type Provider } from "turnpike/gate";
import { receiptOf, wrapMcpClientWithPayment } from "turnpike/mcp/client/v2";
import { type PaidToolOptions, paidTool } from "turnpike/mcp/server/v2";
import type { JsonObject } from "turnpike/protocol";
import * as z from "zod";
import { askOf, textOf } from "../sdk/mcp/support/served";
import { REVISION, type Register, type ServedReplicas, serveReplicas } from "../sdk/mcp/support/served-v2";
import { agentOf, v2Client } from "./support/clients";
import { recordPaid } from "./support/matrix";
import { v2 } from "./support/stock";
import { type InteropWorld, type Payer, startInteropWorld } from "./support/world";

const PRICE = 50_000n;

const AT_TOOL = { server: "turnpike paidTool, MCP v2", offer: "0.05" } as const;

const ABC = { name: "quote", arguments: { symbol: "ABC" } };

/** Clients of revision 2026-07-28 at this project's tools: two replicas, a real chain and this project's Facilitator. */
describe("interop > MCP: revision 2026-07-28", function () {
  // Real blocks, on machines that may be slow.
  this.timeout(240_000);
  let world: InteropWorld;
  let served: ServedReplicas;
  const providers: Provider[] = [];
  let runs = 0;
  let onRun = (): void => undefined;

  before(async () => {
    world = await startInteropWorld();
    const token = { ...world.usdc, currency: "USD" } as const;
    const claims = memoryClaims({ warn: false });
    const input = z.object({ symbol: z.string() });
    const replica = (): Register => {
      // Slow machines: an outage is not what is tested.
      const provider = world.provider({ token, claims, verify: "onchain", facilitatorWaitMs: 60_000 });
      providers.push(provider);
      const quote: PaidToolOptions<typeof input> = {
        provider,
        serverId: "https://tools.example/mcp",
        inputSchema: input,
        pricing: [{ type: "one-time", amount: PRICE }],
      };
      return (server) => {
        paidTool(server, "quote", quote, ({ symbol }) => {
          runs++;
          onRun();
          return { content: [{ type: "text", text: `${symbol}: 7` }] };
        });
      };
    };
    served = await serveReplicas([replica(), replica()], { legacy: "reject" });
    await Promise.all(providers.map((provider) => provider.ready()));
  });
  after(async () => {
    await served?.close();
    for (const provider of providers) await provider.close();
    await world?.stop();
  });
  beforeEach(() => {
    runs = 0;
    onRun = () => undefined;
  });

  /** Returns `_meta` that pays what a call is asked for, signed by the stock client. */
  async function stockPayment(client: Client, { account }: Payer) {
    const asked = await client.callTool(ABC);
    expect(asked.isError).to.equal(true);
    const payload = await v2Client(v2.fetch(), account).createPaymentPayload(askOf(asked as never).required);
    return { "x402/payment": payload as JsonObject };
  }

  for (const mode of [{ pin: REVISION }, "auto"] as const) {
    const name = mode === "auto" ? "that finds the revision out" : "of the revision alone";
    it(`MC1 a client ${name} pays as the stock client signs, once, whichever replica is asked`, async () => {
      const payer = await world.payer();
      const client = await served.connect(mode);
      const _meta = await stockPayment(client, payer);
      const buys = async () => {
        const bought = await client.callTool({ ...ABC, _meta });
        expect(textOf(bought as never)).to.equal("ABC: 7");
        expect(bought._meta?.["x402/payment-response"]).to.include({ success: true, network: "eip155:84532" });
        for (let i = 0; i < 2; i++) {
          const again = await client.callTool({ ...ABC, _meta });
          expect([again.content, again._meta?.["turnpike/replayed"]]).to.deep.equal([bought.content, true]);
        }
        expect([runs, await world.transfers(payer.address)]).to.deep.equal([1, [PRICE]]);
      };
      await (mode === "auto"
        ? buys()
        : recordPaid("mcp-v2", { ...AT_TOOL, client: "@x402/fetch, in an MCP client" }, buys));
    });
  }

  it("MC10 a client that gives up while its payment settles gets the result by the same call, and pays once", async () => {
    const payer = await world.payer();
    const client = await served.connect();
    const _meta = await stockPayment(client, payer);
    const leaving = new AbortController();
    onRun = () => setImmediate(() => leaving.abort());
    const left = await client.callTool({ ...ABC, _meta }, { signal: leaving.signal }).then(
      () => "answered",
      () => "left",
    );
    expect(left).to.equal("left");
    onRun = () => undefined;
    const other = await served.connect();
    let result = await other.callTool({ ...ABC, _meta });
    while (result._meta?.["turnpike/error"] !== undefined) result = await other.callTool({ ...ABC, _meta });
    expect(textOf(result as never)).to.equal("ABC: 7");
    expect(result._meta?.["x402/payment-response"]).to.include({ success: true });
    expect([runs, await world.transfers(payer.address)]).to.deep.equal([1, [PRICE]]);
  });

  it("MB1 this project's agent pays for a call, once", async () => {
    const payer = await world.payer();
    const agent = agentOf(world, payer, 100_000n);
    try {
      const paying = wrapMcpClientWithPayment(await served.connect(), agent, { server: served.url });
      await recordPaid("mcp-v2", { ...AT_TOOL, client: "turnpike agent" }, async () => {
        const result = await paying.callTool(ABC);
        expect(textOf(result as never)).to.equal("ABC: 7");
        expect(receiptOf(result)?.amount).to.equal(PRICE);
        expect([runs, await world.transfers(payer.address)]).to.deep.equal([1, [PRICE]]);
      });
    } finally {
      await agent.close();
    }
  });
});
