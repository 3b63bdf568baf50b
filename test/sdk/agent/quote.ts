import { expect } from "chai";
import fc from "fast-check";
import type { AgentOptions, MeteredPrice, PriceOption, PriceQuote, QuoteInit } from "turnpike/agent";
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
const quoteOf = async (offer: unknown, init?: QuoteInit): Promise<PriceQuote> =>
  agentForOffer(offer).agent.quote("https://api.example/data", init);

/** Computes an option's cost in one period, independently of the SDK. Scaled by every interval, so that it is whole. */
function scaledCost(option: PriceOption, { periodSec, use }: PriceQuote, calls: bigint, scale: bigint): bigint {
  if (option.kind === "one-time") return option.amount * calls * scale;
  const base = (option.amount * BigInt(periodSec) * scale) / BigInt(option.intervalSec);
  return base + (option.kind === "metered" ? (use.costPerCall ?? 0n) * calls * scale : 0n);
}
const nameOf = (option: PriceOption | undefined) => (option && "planId" in option ? option.planId : option?.amount);

describe("agent.quote", () => {
  afterEach(closeAll);

  const expected = { callsPerPeriod: 30, costPerCall: 2_000n };
  const shop = offerOf(
    [500_000n],
    [
      { amount: 10_000_000n, interval: MONTH_SEC },
      { amount: 1_000_000n, interval: MONTH_SEC, metered: true },
    ],
  );

  it("lists every option with its exact price per call and per period", async () => {
    const quote = await quoteOf(shop, { expected });
    expect(quote).to.include({ status: 402, periodSec: MONTH_SEC, method: "GET" });
    expect(quote.options.map(({ kind, amount, perCall, perPeriod }) => ({ kind, amount, perCall, perPeriod })))
      .to.deep //
      .equal([
        {
          kind: "one-time",
          amount: 500_000n,
          perCall: { numerator: 500_000n, denominator: 1n },
          perPeriod: { numerator: 15_000_000n, denominator: 1n },
        },
        {
          kind: "metered",
          amount: 1_000_000n,
          perCall: { numerator: 106_000n, denominator: 3n },
          perPeriod: { numerator: 1_060_000n, denominator: 1n },
        },
        {
          kind: "subscription",
          amount: 10_000_000n,
          perCall: { numerator: 1_000_000n, denominator: 3n },
          perPeriod: { numerator: 10_000_000n, denominator: 1n },
        },
      ]);
    expect(quote.cheapest?.kind).to.equal("metered");
    expect((quote.options[1] as MeteredPrice).maxOverage).to.equal(60_000n);
  });

  it("returns where each plan breaks even with paying per call, and the cheapest option for any usage", async () => {
    const quote = await quoteOf(shop, { expected });
    const [, metered, flat] = quote.options as MeteredPrice[];
    expect(flat?.breakEven).to.deep.equal({ numerator: 20n, denominator: 1n });
    expect(flat?.cheaperFromCalls).to.equal(21n);
    // 1,000,000 / (500,000 - 2,000): a little over two calls.
    expect(metered?.breakEven).to.deep.equal({ numerator: 500n, denominator: 249n });
    expect(metered?.cheaperFromCalls).to.equal(3n);
    expect(quote.ranges.map(({ fromCalls, option }) => [fromCalls, option.kind])).to.deep.equal([
      [0n, "one-time"],
      [3n, "metered"],
      [4_501n, "subscription"],
    ]);
  });

  it("lists metered plans without comparing them when the cost of a call is unknown", async () => {
    const quote = await quoteOf(shop, { expected: { callsPerPeriod: 3 } });
    const metered = quote.options.find(({ kind }) => kind === "metered") as MeteredPrice;
    expect([metered.perPeriod, metered.maxOverage, metered.breakEven]).to.deep.equal([undefined, undefined, undefined]);
    expect(quote.ranges.map(({ option }) => option.kind)).to.deep.equal(["one-time", "subscription"]);
  });

  it("compares plans of different intervals over one period", async () => {
    const plans = [
      { amount: 1_000_000n, interval: 7 * DAY_SEC },
      { amount: 4_000_000n, interval: MONTH_SEC },
    ];
    const quote = await quoteOf(offerOf([], plans), { expected: { callsPerPeriod: 1 } });
    expect(quote.periodSec).to.equal(MONTH_SEC);
    expect(quote.options.map(({ perPeriod }) => perPeriod)).to.deep.equal([
      { numerator: 30_000_000n, denominator: 7n },
      { numerator: 4_000_000n, denominator: 1n },
    ]);
    expect(nameOf(quote.cheapest)).to.equal(planIdOf(1));
  });

  it("names the cheapest option at every usage, for any offer", async () => {
    const amount = fc.bigInt({ min: 1n, max: 10n ** 12n });
    const terms = fc.record({ amount, interval: fc.integer({ min: 60, max: 10 ** 8 }), metered: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(
        fc.array(amount, { maxLength: 3 }),
        fc.array(terms, { maxLength: 4 }),
        fc.bigInt({ min: 0n, max: 10n ** 7n }),
        fc.bigInt({ min: 0n, max: 10n ** 9n }),
        fc.integer({ min: 1, max: 10 ** 8 }),
        async (oneTime, plans, callsPerPeriod, costPerCall, periodSec) => {
          const quote = await quoteOf(offerOf(oneTime, plans), {
            expected: { callsPerPeriod, costPerCall, periodSec },
          });
          expect(quote.options).to.have.length(oneTime.length + plans.length);
          const scale = plans.reduce((product, { interval }) => product * BigInt(interval), 1n);
          const costOf = (option: PriceOption, calls: bigint) => scaledCost(option, quote, calls, scale);
          const starts = quote.ranges.map(({ fromCalls }) => fromCalls);
          const uses = [callsPerPeriod, ...starts, ...starts.flatMap((n) => (n > 0n ? [n - 1n] : [])), 10n ** 40n];
          for (const calls of uses) {
            const recommended = quote.ranges.filter(({ fromCalls }) => fromCalls <= calls).at(-1)?.option;
            const least = quote.options.map((option) => costOf(option, calls)).sort((a, b) => (a < b ? -1 : 1))[0];
            expect(recommended && costOf(recommended, calls), `${calls} calls`).to.equal(least);
            if (calls === callsPerPeriod) expect(nameOf(recommended)).to.equal(nameOf(quote.cheapest));
          }
          const single = quote.options.find(({ kind }) => kind === "one-time");
          for (const option of quote.options) {
            const { perPeriod } = option;
            expect((perPeriod?.numerator ?? 0n) * scale).to.equal(
              costOf(option, callsPerPeriod) * (perPeriod?.denominator ?? 0n),
            );
            if (option.kind === "one-time" || !single) continue;
            const { cheaperFromCalls: from } = option;
            const isCheaper = (calls: bigint) => costOf(option, calls) < costOf(single, calls);
            if (from === undefined) expect(isCheaper(10n ** 40n)).to.equal(false);
            else expect([isCheaper(from), from > 0n && isCheaper(from - 1n)]).to.deep.equal([true, false]);
          }
        },
      ),
      { numRuns: 150, seed: 5 },
    );
  });

  it("counts the usage in the ledger, ignoring the query", async () => {
    const chain = new Chain();
    const facilitator = await startFacilitator(chain);
    const provider = await startProvider(chain, facilitator.url);
    let nowSec = 1_800_000_000;
    const { agent } = agentFor(facilitator.url, { clock: { nowSec: () => nowSec } });
    expect((await agent.quote(`${provider.url}/data`)).use.source).to.equal("unknown");
    for (const query of ["a", "b", "c"]) await agent.pay(`${provider.url}/data?q=${query}`);
    await agent.pay(`${provider.url}/other`);
    const quote = await agent.quote(`${provider.url}/data`);
    expect(quote.use).to.include({ source: "observed", callsPerPeriod: 3n });
    expect(quote.cheapest?.perPeriod).to.deep.equal({ numerator: 1_500_000n, denominator: 1n });
    nowSec += MONTH_SEC;
    expect((await agent.quote(`${provider.url}/data`)).use.source).to.equal("unknown");
  });

  it("signs nothing, pays nothing, reserves nothing and sends no credential", async () => {
    const chain = new Chain();
    const facilitator = await startFacilitator(chain);
    const provider = await startProvider(chain, facilitator.url);
    const subject = agentFor(facilitator.url);
    await subject.agent.quote(new Request(`${provider.url}/job`, { method: "POST", body: "work" }), { expected });
    expect([subject.signed, chain.transfers, await subject.agent.payments()]).to.deep.equal([[], [], []]);
    expect(facilitator.seen).to.deep.equal([]);
    expect(provider.seen.map(({ method, body, headers }) => [method, body, headers["x-payment"]])).to.deep.equal([
      ["POST", "work", undefined],
    ]);
    const bearing = { headers: { "X-Service-Sub": "0x00" } };
    expect((await rejection(subject.agent.quote(provider.url, bearing))).code).to.equal("InvalidRequest");
  });

  it("marks what the agent would refuse, and never recommends it", async () => {
    const policy = { perPayment: 499_999n, perDay: 10_000_000n, perSubscription: 1_000_000n, tokens: [TOKEN] };
    const { agent } = agentForOffer(shop, { policy });
    const quote = await agent.quote("https://api.example/data", { expected });
    expect(quote.options.map(({ kind, verdict, reason }) => [kind, verdict, reason])).to.deep.equal([
      ["one-time", "refuse", "limit"],
      ["metered", "refuse", "limit"],
      ["subscription", "refuse", "limit"],
    ]);
    expect([quote.cheapest, quote.ranges]).to.deep.equal([undefined, []]);
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
    expect(await agent.quote(free.url)).to.deep.include({ status: 200, options: [], ranges: [], cheapest: undefined });
    expect((await agent.quote(lure.url)).status).to.equal(302);
    expect(free.seen).to.have.length(1);
  });

  it("rejects usage that is not a whole number", async () => {
    for (const callsPerPeriod of [-1, 0.5, Number.NaN]) {
      expect((await rejection(quoteOf(shop, { expected: { callsPerPeriod } }))).code).to.equal("InvalidRequest");
    }
    const fractional = quoteOf(shop, { expected: { callsPerPeriod: 1, periodSec: 0.5 } });
    expect((await rejection(fractional)).code).to.equal("InvalidRequest");
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
