/** Sells a model's tokens by plan and overage: examples/llm-proxy.ts in front of a model that always answers the same. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { createPlan } from "turnpike/chain";
import { createProvider, type Provider } from "turnpike/gate";
import { defaultGraceSec, type Hex } from "turnpike/protocol";
import { startLlmProxy } from "../../../examples/llm-proxy";
import type { Cast } from "../cast";
import { type FundedWallet, testKey } from "../chain";
import { TEST_TOKEN } from "../contracts";
import { mustBe } from "../narrate";
import { spentOf, until } from "../observe";
import { INTERVAL_SEC, UNIT, type World } from "../world";
import { walkAudit } from "./audit";

/** What the model answers with. */
const TOKENS = 40;

/** Base units: what 10 of the example's output tokens cost, at $15 for a million. */
const CAP = 150n;

const SERVED = 10;

export async function walkStream(cast: Cast): Promise<void> {
  const { world, narrator } = cast;
  const account = await world.chain.wallet("tokens");
  const { agent } = await world.agent("mia", { fetch: narrator.fetch, hasNode: true });
  await narrator.step(
    "A stream of tokens that ends at its cap",
    `Mia asks a language model for ${TOKENS} tokens. Her cap pays for ${SERVED}: the stream ends there, and the next request is refused.`,
    async () => {
      const planId = await createTokenPlan(world, account);
      const provider = tokenProvider(world, account);
      const model = await startModel();
      const upstream = { url: `http://127.0.0.1:${(model.address() as AddressInfo).port}`, key: "model key" };
      const proxy = await startLlmProxy({ provider, plan: planId, upstream, port: 0 });
      try {
        const { idHash } = await agent.subscribe({ planId, maxOverage: CAP, origins: [new URL(proxy.url).origin] });
        const body = JSON.stringify({ model: "large", stream: true, messages: [] });
        const ask = () =>
          agent.fetch(proxy.url, { method: "POST", headers: { "Content-Type": "application/json" }, body });
        const answer = await ask();
        mustBe(answer.status, 200, "the status");
        const text = await answer.text();
        mustBe(text.split("word ").length - 1, SERVED, "the number of tokens that were served");
        mustBe(text.includes("AllowanceExhausted"), true, "that the stream says why it ends");
        mustBe((await ask()).status, 402, "the status of the next request");
        await provider.flush();
        await until("the debit", async () => (await spentOf(world, idHash)) === CAP);
      } finally {
        await proxy.stop();
        model.close();
      }
    },
  );
  await walkAudit(cast, { agent, provider: account, spent: CAP });
}

async function createTokenPlan({ contracts, facilitator }: World, account: FundedWallet): Promise<Hex> {
  const { planId } = await createPlan(account, contracts.turnpike, {
    token: contracts.token,
    amount: UNIT,
    intervalSec: INTERVAL_SEC,
    graceSec: defaultGraceSec(INTERVAL_SEC),
    metadata: JSON.stringify({ name: "Tokens" }),
  });
  await until("the plan", async () => (await fetch(`${facilitator.url}/plans/${planId}`)).ok);
  return planId;
}

function tokenProvider({ contracts, gateOptions, home }: World, account: FundedWallet): Provider {
  return createProvider({
    ...gateOptions,
    token: { address: contracts.token, decimals: TEST_TOKEN.decimals, currency: "USD" },
    payTo: account.address,
    operatorKey: account.privateKey as Hex,
    // The plan's provider has every right on it. In production a key without money has this one alone.
    receiptKey: account.privateKey as Hex,
    secret: testKey("tokens' gate"),
    claims: path.join(home, "tokens"),
    meterFolder: path.join(home, "tokens"),
  });
}

/** A model with OpenAI's interface, which streams one word for each token. */
async function startModel(): Promise<Server> {
  const model = createServer((_request, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    const chunk = { choices: [{ index: 0, delta: { content: "word " } }] };
    for (let i = 0; i < TOKENS; i++) response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    response.end("data: [DONE]\n\n");
  });
  model.listen(0, "127.0.0.1");
  await once(model, "listening");
  return model;
}
