/** The scheme `upto`: the payer signs a maximum, and the provider charges what the request cost. */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import path from "node:path";
import express from "express";
import { createAgent } from "turnpike/agent";
import { createProvider } from "turnpike/gate";
import type { Cast } from "../cast";
import { testKey } from "../chain";
import { mustBe } from "../narrate";
import type { World } from "../world";

const MAX = 500_000n;

const PRICE_PER_PAGE = 10_000n;

export async function walkUpTo({ world, narrator }: Cast): Promise<void> {
  await narrator.step(
    "A maximum, charged as used",
    "Eve allows 0.50 for a search. It finds three pages: she is charged 0.03. Her permit lets Permit2 move it, so she needs no gas. A search that fails is free.",
    async () => {
      const { contracts, facilitator, chain } = world;
      const eve = await world.agent("eve");
      const agent = createAgent({
        wallet: eve.wallet,
        policy: { perPayment: MAX, perDay: 2n * MAX, tokens: [contracts.token], methods: ["upto"] },
        facilitators: [facilitator.url],
        deployments: [contracts],
        rpc: chain.rpcUrl,
        fetch: narrator.fetch,
      });
      const search = await startSearch(world);
      const spentOn = async (query: string) => {
        const before = await contracts.balanceOf(eve.address);
        const { status, receipt } = await agent.pay(`${search.url}/search?q=${query}`);
        return { status, charged: receipt?.charged, spent: before - (await contracts.balanceOf(eve.address)) };
      };
      try {
        const three = 3n * PRICE_PER_PAGE;
        const found = await spentOn("three");
        mustBe(found.status, 200, "the status");
        mustBe(found.spent, three, "what Eve paid");
        mustBe(found.charged, three, "the charge by the receipt, as her own node has it");
        mustBe((await spentOn("broken")).spent, 0n, "what a search that fails costs");
      } finally {
        await search.stop();
        await agent.close();
      }
    },
  );
}

async function startSearch({ gateOptions, home, chain }: World) {
  const account = await chain.wallet("search");
  const folder = path.join(home, "search");
  const provider = createProvider({
    ...gateOptions,
    payTo: account.address,
    secret: testKey("search's gate"),
    claims: folder,
  });
  const app = express();
  app.get("/search", provider.paymentGate({ pricing: [{ type: "upto", max: MAX }] }), (req, res) => {
    const pages = req.query.q === "three" ? ["one", "two", "three"] : undefined;
    if (!pages) return void res.status(500).json({ error: "Unavailable", message: "the index is away" });
    req.payment?.charge(BigInt(pages.length) * PRICE_PER_PAGE);
    res.json({ pages });
  });
  await provider.ready();
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      server.close();
      await provider.close();
    },
  };
}
