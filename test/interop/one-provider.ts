import { expect } from "chai";
import type { Browser } from "playwright-core";
import { memoryClaims, type PricingEntry, type Provider } from "turnpike/gate";
import { paidTool } from "turnpike/mcp/server/v2";
import { addPageWallet } from "../e2e/support/page-wallet";
import { askOf, textOf } from "../sdk/mcp/support/served";
import { type ServedReplicas, serveReplicas } from "../sdk/mcp/support/served-v2";
import { launchBrowser, openPage } from "../support/browser";
import { clientsOf, mppClientOf, v2Client } from "./support/clients";
import { ADAPTERS, counter, type Served } from "./support/gates";
import { recordPaid } from "./support/matrix";
import { mppx, v2 } from "./support/stock";
import { CHAIN_ID, type InteropWorld, type Payer, startInteropWorld } from "./support/world";

const PRICE = 50_000n;

/** What is sold, in every dialect. */
const PRICING: readonly PricingEntry[] = [{ type: "one-time", amount: PRICE }];

const ANSWER = '{"answer":42}';

/** One provider, with one store and one pricing object, sells to every kind of client. */
describe("interop > one provider", function () {
  // Real blocks and a browser, on machines that may be slow.
  this.timeout(240_000);
  let world: InteropWorld;
  let provider: Provider;
  let server: Served;
  let tools: ServedReplicas;
  let browser: Browser;
  const calls = counter();

  before(async () => {
    world = await startInteropWorld();
    const token = { ...world.usdc, symbol: "USDC", currency: "USD" } as const;
    // Slow machines: an outage is not what is tested.
    const patient = { facilitatorWaitMs: 60_000 };
    provider = world.provider({ token, mpp: "Authorization", claims: memoryClaims({ warn: false }), ...patient });
    const route = { pricing: PRICING, page: true, description: "The answer" };
    server = await (ADAPTERS.express as (typeof ADAPTERS)[string])(provider, { "/answer": route });
    const tool = { provider, serverId: "https://tools.example/mcp", pricing: PRICING };
    tools = await serveReplicas([
      (mcp) => {
        paidTool(mcp, "answer", tool, () => {
          calls.add();
          return { content: [{ type: "text", text: ANSWER }] };
        });
      },
    ]);
    await provider.ready();
    browser = await launchBrowser();
  });
  after(async () => {
    await browser?.close();
    await tools?.close();
    await server?.stop();
    await provider?.close();
    await world?.stop();
  });

  /** Pays by a client of HTTP. @returns the transaction that its receipt names */
  async function byHttp(name: string, payer: Payer): Promise<string> {
    const paid = await clientsOf(world)[name]?.pay(`${server.url}/answer`, payer);
    expect([paid?.status, paid?.body]).to.deep.equal([200, ANSWER]);
    return String(paid?.receipt?.transaction);
  }

  async function byMpp(payer: Payer): Promise<string> {
    const response = await mppClientOf(world, payer).fetch(`${server.url}/answer`);
    expect([response.status, await response.text()]).to.deep.equal([200, ANSWER]);
    return mppx.receipts().fromResponse(response).reference;
  }

  async function byTool({ account }: Payer): Promise<string> {
    const client = await tools.connect();
    const asked = await client.callTool({ name: "answer" });
    const payload = await v2Client(v2.fetch(), account).createPaymentPayload(askOf(asked as never).required);
    const result = await client.callTool({ name: "answer", _meta: { "x402/payment": payload as object } });
    expect(textOf(result as never)).to.equal(ANSWER);
    const receipt = result._meta?.["x402/payment-response"] as { readonly transaction: string };
    return receipt.transaction;
  }

  async function byBrowser({ address, key }: Payer): Promise<string> {
    const { page, errors } = await openPage(browser);
    try {
      await addPageWallet(page, { address, key, chainId: CHAIN_ID, rpcUrl: world.chain.rpcUrl });
      await page.goto(`${server.url}/answer`);
      await page.getByRole("button", { name: "Connect a wallet" }).click();
      await page.getByRole("button", { name: /^Pay 0\.05/ }).click();
      const shown = page.locator("#content > pre");
      await shown.waitFor();
      expect([JSON.parse(String(await shown.textContent())), errors]).to.deep.equal([JSON.parse(ANSWER), []]);
      return String(await page.locator("#receipt").textContent()).replace("Transaction ", "");
    } finally {
      await page.context().close();
    }
  }

  it("sells to x402 of both versions, MPP, an MCP client and a browser, by one transfer each", async () => {
    const buyers: readonly [client: string, pay: (payer: Payer) => Promise<string>][] = [
      ["x402-fetch", (payer) => byHttp("x402-fetch", payer)],
      ["@x402/fetch", (payer) => byHttp("@x402/fetch", payer)],
      ["mppx", byMpp],
      ["@x402/fetch, in an MCP client", byTool],
      ["payment page", byBrowser],
    ];
    const transactions = new Set<string>();
    for (const [client, pay] of buyers) {
      const payer = await world.payer();
      await recordPaid("one-provider", { client, server: "turnpike, one provider", offer: "0.05" }, async () => {
        const transaction = await pay(payer);
        const receipt = await world.chain.provider.getTransactionReceipt(transaction);
        expect([receipt?.status, await world.transfers(payer.address)], client).to.deep.equal([1, [PRICE]]);
        transactions.add(transaction);
      });
    }
    expect([transactions.size, server.runs(), calls.read()]).to.deep.equal([5, 4, 1]);
  });
});
