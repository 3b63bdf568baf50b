import { expect } from "chai";
import type { AgentOptions, PriceQuote } from "turnpike/agent";
import type { Hex } from "turnpike/protocol";
import { rejection } from "./support/rejection";
import { PRICE, type Relay, startRelay } from "./support/relay";
import { closeAll, serve } from "./support/servers";
import {
  addressOf,
  agentFor,
  CHAIN_ID,
  Chain,
  NETWORK,
  startFacilitator,
  startProvider,
  TOKEN,
  TOKEN_DOMAIN,
} from "./support/world";

const DAY_SEC = 86_400;
const MONTH_SEC = 30 * DAY_SEC;
const FACILITATOR = "https://pay.example";
const planIdOf = (n: number): Hex => `0x${(n + 1).toString(16).padStart(64, "0")}`;

interface Terms {
  readonly amount: bigint;
  readonly interval: number;
  readonly metered?: boolean;
}

/** Builds a gate's 402 from its prices. */
function offerOf(oneTime: readonly bigint[], plans: readonly Terms[]) {
  return {
    version: "1",
    accepts: oneTime.map((amount) => ({
      scheme: "exact",
      network: NETWORK,
      token: TOKEN,
      amount: amount.toString(),
      payTo: addressOf("provider"),
      memo: "AAAAAAAAAAAAAAAAAAAAAA.k1.1900000000.AAAAAAAAAAAAAAAAAAAAAA",
      resource: "https://api.example/data",
      hoodlayer: { facilitator: FACILITATOR },
      extra: TOKEN_DOMAIN,
    })),
    plans: plans.map(({ amount, ...terms }, n) => ({
      planId: planIdOf(n),
      amount: amount.toString(),
      token: TOKEN,
      network: NETWORK,
      payTo: addressOf("provider"),
      metered: false,
      ...terms,
    })),
    error: "PaymentRequired",
  };
}

/** An agent with one gate to call and a Facilitator that is down. */
function agentForOffer(offer: unknown, options: Partial<AgentOptions> = {}) {
  return agentFor(FACILITATOR, {
    fetch: async (input) =>
      String(input).startsWith(FACILITATOR)
        ? new Response(null, { status: 503 })
        : new Response(JSON.stringify(offer), { status: 402 }),
    policy: { perPayment: 10n ** 30n, perDay: 10n ** 30n, tokens: [TOKEN] },
    ...options,
  });
}
const quoteOf = async (offer: unknown): Promise<PriceQuote> =>
  agentForOffer(offer).agent.quote("https://api.example/data");

describe("agent.quote", () => {
  afterEach(closeAll);

  const shop = offerOf(
    [500_000n],
    [
      { amount: 10_000_000n, interval: MONTH_SEC },
      { amount: 1_000_000n, interval: MONTH_SEC, metered: true },
    ],
  );

  it("lists every option with its exact price", async () => {
    const quote = await quoteOf(shop);
    expect(quote).to.include({ status: 402, method: "GET" });
    expect(quote.options.map(({ kind, amount }) => [kind, amount])).to.deep.equal([
      ["one-time", 500_000n],
      ["metered", 1_000_000n],
      ["subscription", 10_000_000n],
    ]);
  });

  it("signs nothing, pays nothing, reserves nothing and sends no credential", async () => {
    const chain = new Chain();
    const facilitator = await startFacilitator(chain);
    const provider = await startProvider(chain, facilitator.url);
    const subject = agentFor(facilitator.url);
    await subject.agent.quote(new Request(`${provider.url}/job`, { method: "POST", body: "work" }));
    expect([subject.signed, chain.transfers, await subject.agent.payments()]).to.deep.equal([[], [], []]);
    expect(facilitator.seen).to.deep.equal([]);
    expect(provider.seen.map(({ method, body, headers }) => [method, body, headers["x-payment"]])).to.deep.equal([
      ["POST", "work", undefined],
    ]);
    const bearing = { headers: { "X-Service-Sub": "0x00" } };
    expect((await rejection(subject.agent.quote(provider.url, bearing))).code).to.equal("InvalidRequest");
  });

  it("marks what the agent would refuse", async () => {
    const policy = { perPayment: 499_999n, perDay: 10_000_000n, perSubscription: 1_000_000n, tokens: [TOKEN] };
    const { agent } = agentForOffer(shop, { policy });
    const quote = await agent.quote("https://api.example/data");
    expect(quote.options.map(({ kind, verdict, reason }) => [kind, verdict, reason])).to.deep.equal([
      ["one-time", "refuse", "limit"],
      ["metered", "allow", undefined],
      ["subscription", "refuse", "limit"],
    ]);
    const asking = agentForOffer(shop, { policy: { ...policy, perPayment: 500_000n, askNewPayees: true } }).agent;
    expect((await asking.quote("https://api.example/data")).options[0]?.verdict).to.equal("ask");
    const abroad = offerOf([1n], []);
    const [entry] = abroad.accepts;
    const foreign = { ...abroad, accepts: [{ ...entry, hoodlayer: { facilitator: "https://evil.example" } }] };
    expect((await quoteOf(foreign)).options[0]).to.include({ verdict: "refuse", reason: "facilitator" });
  });

  it("reports when no payment is required, and does not follow a redirect to another origin", async () => {
    const free = await serve(() => ({ status: 200, json: {} }));
    const lure = await serve(() => ({ status: 302, headers: { location: free.url } }));
    const { agent } = agentFor("https://pay.example");
    expect(await agent.quote(free.url)).to.deep.include({ status: 200, options: [] });
    expect((await agent.quote(lure.url)).status).to.equal(302);
    expect(free.seen).to.have.length(1);
  });

  describe("with a reachable Facilitator", () => {
    let relay: Relay;
    let planId: Hex;
    const agentOn = () =>
      agentFor(relay.url, {
        policy: { perPayment: PRICE, perDay: 1_000n * PRICE, tokens: [relay.addresses.token] },
        deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
      }).agent;
    const gateQuoting = (amount: bigint) =>
      serve(() => ({
        status: 402,
        json: {
          version: "1",
          accepts: [],
          plans: [{ planId, amount: amount.toString(), interval: MONTH_SEC, token: relay.addresses.token }],
        },
      }));

    beforeEach(async () => {
      relay = await startRelay();
      planId = await relay.createPlan();
      await relay.fund(addressOf("payer"));
    });

    it("verifies the terms by the plan's id, and refuses a 402 with other terms", async () => {
      const honest = await agentOn().quote((await gateQuoting(PRICE)).url);
      expect(honest.options[0]).to.include({ verified: true, verdict: "allow", amount: PRICE, chainId: CHAIN_ID });
      const lying = await agentOn().quote((await gateQuoting(1n)).url);
      expect(lying.options[0]).to.include({ verdict: "refuse", reason: "plan_terms", amount: PRICE });
    });

    it("marks the plans that are deprecated and those that are already subscribed to", async () => {
      const gate = await gateQuoting(PRICE);
      const agent = agentOn();
      await agent.subscribe({ planId });
      expect((await agent.quote(gate.url)).options[0]).to.include({ subscribed: true });
      await relay.deprecate(planId, await relay.createPlan());
      expect((await agentOn().quote(gate.url)).options[0]).to.include({ verdict: "refuse", reason: "deprecated" });
    });
  });
});
