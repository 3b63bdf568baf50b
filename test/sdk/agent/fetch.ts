import { expect } from "chai";
import { type LedgerRecord, memoryLedger, receiptOf } from "turnpike/agent";
import { type Hex, parseSubscriptionId } from "turnpike/protocol";
import { PRICE, type Relay, startRelay } from "./support/relay";
import { type Answer, closeAll, type Seen, type StandIn, serve } from "./support/servers";
import {
  addressOf,
  agentFor,
  CHAIN_ID,
  Chain,
  NETWORK,
  startFacilitator,
  startProvider,
  TOKEN,
  TURNPIKE,
} from "./support/world";

/** A route behind a plan. It looks up the hash of the id on chain, as a gate does. */
async function startGate(
  relay: Relay,
  planId: Hex,
  options: {
    refuse?: () => string | undefined;
    oneTime?: Record<string, unknown>;
    redirectTo?: () => string | undefined;
    /** of its 402s */
    headers?: () => Record<string, string>;
  } = {},
): Promise<StandIn> {
  const quote = (error: string): Answer => ({
    status: 402,
    headers: options.headers?.() ?? {},
    json: {
      version: "1",
      accepts: [
        ...(options.oneTime ? [options.oneTime] : []),
        {
          scheme: "exact",
          network: `local-${CHAIN_ID}`,
          token: relay.addresses.token,
          amount: PRICE.toString(),
          payTo: addressOf("treasury"),
          memo: "AAAAAAAAAAAAAAAAAAAAAA.k1.1.AAAAAAAAAAAAAAAAAAAAAA",
          hoodlayer: { planId, subscriptionScheme: true, facilitator: relay.url },
        },
      ],
      plans: [{ planId, amount: PRICE.toString(), interval: 2_592_000, token: relay.addresses.token }],
      error,
      message: "Subscribe.",
    },
  });
  return serve(async (request: Seen) => {
    const id = request.headers["x-service-sub"];
    const target = options.redirectTo?.();
    if (target) return { status: 307, headers: { location: target } };
    const refused = options.refuse?.();
    if (refused) return quote(refused);
    const parsed = parseSubscriptionId(id);
    if (!parsed) return quote("PaymentRequired");
    const status = await relay.turnpike.statusOf(parsed.idHash);
    return status === 1n ? { status: 200, json: { served: true } } : quote("SubscriptionNotActive");
  });
}

describe("agent.fetch", () => {
  let relay: Relay;
  let planId: Hex;
  const agentOn = (overrides: object = {}) =>
    agentFor(relay.url, {
      policy: { perPayment: PRICE, perDay: 1_000n * PRICE, tokens: [relay.addresses.token] },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
      ...overrides,
    });
  const idsSeenBy = (server: StandIn) => server.seen.flatMap(({ headers }) => headers["x-service-sub"] ?? []);

  beforeEach(async () => {
    relay = await startRelay();
    planId = await relay.createPlan();
    await relay.fund(addressOf("payer"));
  });
  afterEach(closeAll);

  it("behaves as fetch where no payment is required", async () => {
    const free = await serve(({ method, body }) => ({ status: 201, json: { method, body } }));
    const response = await agentOn().agent.fetch(free.url, { method: "PUT", body: "x" });
    expect([response.status, await response.json()]).to.deep.equal([201, { method: "PUT", body: "x" }]);
  });

  it("pays where the policy allows it, and returns a receipt", async () => {
    const chain = new Chain();
    const facilitator = await startFacilitator(chain);
    const provider = await startProvider(chain, facilitator.url);
    const response = await agentFor(facilitator.url).agent.fetch(provider.url);
    expect(response.status).to.equal(200);
    expect(receiptOf(response)?.amount).to.equal(500_000n);
  });

  it("returns the 402 unchanged, with its body unread, where the policy forbids payment", async () => {
    const chain = new Chain();
    const facilitator = await startFacilitator(chain);
    const provider = await startProvider(chain, facilitator.url, { amount: 1_000_001n });
    const subject = agentFor(facilitator.url);
    const response = await subject.agent.fetch(provider.url);
    expect(response.status).to.equal(402);
    expect(await response.json()).to.have.nested.property("accepts[0].amount", "1000001");
    expect(subject.signed).to.deep.equal([]);
    expect(chain.transfers).to.have.length(0);
  });

  it("subscribes from a URL's 402 and is then served there without paying", async () => {
    const gate = await startGate(relay, planId);
    const { agent } = agentOn();
    const subscription = await agent.subscribe({ url: `${gate.url}/feed` });
    expect(subscription.origins).to.deep.equal([gate.url]);
    expect((await agent.fetch(`${gate.url}/feed`)).status).to.equal(200);
    expect((await agent.fetch(`${gate.url}/other`)).status).to.equal(200);
    expect(idsSeenBy(gate)).to.deep.equal([subscription.id, subscription.id]);
  });

  it("D16 does not send the id to another origin whose 402 names the plan", async () => {
    const gate = await startGate(relay, planId);
    const stranger = await startGate(relay, planId);
    const subject = agentOn();
    await subject.agent.fetch(stranger.url);
    await subject.agent.subscribe({ planId, origins: [gate.url] });
    const response = await subject.agent.fetch(stranger.url);
    expect(response.status).to.equal(402);
    expect(idsSeenBy(stranger)).to.deep.equal([]);
    expect(subject.events.map(({ type }) => type)).to.include("subscription.origin_unknown");
  });

  it("D16 sends a subscription without origins nowhere until the caller names one", async () => {
    const gate = await startGate(relay, planId);
    const { agent } = agentOn();
    const subscription = await agent.subscribe({ planId });
    expect((await agent.fetch(gate.url)).status).to.equal(402);
    expect(idsSeenBy(gate)).to.deep.equal([]);
    await agent.addOrigins(subscription, [`${gate.url}/any/path`]);
    expect((await agent.fetch(gate.url)).status).to.equal(200);
  });

  it("D7 does not send the id across a redirect to another origin", async () => {
    const stranger = await serve(() => ({ status: 200, json: { stolen: true } }));
    let target: string | undefined;
    const gate = await startGate(relay, planId, { redirectTo: () => target });
    const { agent } = agentOn();
    await agent.subscribe({ planId, origins: [gate.url] });
    target = `${stranger.url}/take`;
    const response = await agent.fetch(gate.url);
    expect(response.status).to.equal(307);
    expect(stranger.seen).to.deep.equal([]);
  });

  it("follows a redirect within the origin with the id", async () => {
    let target: string | undefined = "/moved";
    const gate = await startGate(relay, planId, {
      redirectTo: () => {
        const once = target;
        target = undefined;
        return once;
      },
    });
    const { agent } = agentOn();
    await agent.subscribe({ planId, origins: [gate.url] });
    expect((await agent.fetch(gate.url)).status).to.equal(200);
    expect(gate.seen.at(-1)?.url).to.equal("/moved");
  });

  it("retries a refusal right after subscribing", async () => {
    let stale = 3;
    const gate = await startGate(relay, planId, {
      refuse: () => (stale-- > 0 ? "SubscriptionNotActive" : undefined),
    });
    const subject = agentOn();
    await subject.agent.subscribe({ planId, origins: [gate.url] });
    expect((await subject.agent.fetch(gate.url)).status).to.equal(200);
    expect(gate.seen, "three refusals, then served").to.have.length(4);
  });

  it("does not pay around a refusal that outlasts the retries, right after subscribing", async () => {
    const memo = `AAAAAAAAAAAAAAAAAAAAAA.k1.${(await relay.nowSec()) + 600}.AAAAAAAAAAAAAAAAAAAAAA`;
    const oneTime = { scheme: "exact", network: NETWORK, token: relay.addresses.token, amount: "1", memo };
    const gate = await startGate(relay, planId, {
      refuse: () => "SubscriptionNotActive",
      oneTime: { ...oneTime, payTo: addressOf("treasury"), hoodlayer: { facilitator: relay.url } },
    });
    const subject = agentOn();
    await subject.agent.subscribe({ planId, origins: [gate.url] });
    const response = await subject.agent.fetch(gate.url);
    expect(response.status).to.equal(402);
    expect(await response.json()).to.have.property("error", "SubscriptionNotActive");
    expect(subject.signed).not.to.include("TransferWithAuthorization");
    expect(gate.seen.length).to.be.lessThan(60);
    await agentOn({ limits: { settleMs: 500 } })
      .agent.fetch(gate.url)
      .catch(() => undefined);
    const posted = relay.seen.filter(({ url }) => url === "/authorize");
    expect(posted.length, "the entry was payable").to.be.greaterThan(0);
  });

  it("reports a reached cap at once when the subscription was served before, also right after subscribing", async () => {
    let error: string | undefined;
    const gate = await startGate(relay, planId, { refuse: () => error });
    const { agent } = agentOn();
    const subscription = await agent.subscribe({ planId, origins: [gate.url] });
    expect((await agent.fetch(gate.url)).status).to.equal(200);
    error = "AllowanceExhausted";
    expect((await agent.fetch(gate.url)).status).to.equal(402);
    expect(gate.seen).to.have.length(2);

    await agent.pause(subscription);
    await agent.resume(subscription);
    error = undefined;
    expect((await agent.fetch(gate.url)).status).to.equal(200);
    error = "AllowanceExhausted";
    expect((await agent.fetch(gate.url)).status, "after resume").to.equal(402);
    expect(gate.seen).to.have.length(4);
  });

  it("retries a reached cap after it was raised, although the subscription was served meanwhile", async () => {
    let stale = 0;
    const gate = await startGate(relay, planId, { refuse: () => (stale-- > 0 ? "AllowanceExhausted" : undefined) });
    const { agent } = agentOn();
    const subscription = await agent.subscribe({ planId, origins: [gate.url] });
    await agent.setMaxOverage(subscription, 5_000_000n);
    expect((await agent.fetch(gate.url)).status).to.equal(200);
    stale = 3;
    expect((await agent.fetch(gate.url)).status).to.equal(200);
    expect(gate.seen).to.have.length(5);
  });

  it("retries a lasting refusal for at most 2 s after a change, with growing delays, and only once per change", async () => {
    let error: string | undefined;
    const gate = await startGate(relay, planId, { refuse: () => error });
    const waits: number[] = [];
    const { agent } = agentOn({
      sleep: async (ms: number) => {
        waits.push(ms);
      },
    });
    const subscription = await agent.subscribe({ planId, origins: [gate.url] });
    await agent.setMaxOverage(subscription, 5_000_000n);
    error = "AllowanceExhausted";
    expect((await agent.fetch(gate.url)).status).to.equal(402);
    expect(waits).to.deep.equal([250, 500, 1_000]);
    expect(gate.seen).to.have.length(4);
    expect((await agent.fetch(gate.url)).status).to.equal(402);
    expect(gate.seen, "the change has had its time").to.have.length(5);
  });

  it("reports a reached cap at once when the same route served by the raised one", async () => {
    let error: string | undefined = "AllowanceExhausted";
    const gate = await startGate(relay, planId, { refuse: () => error });
    const { agent } = agentOn();
    const subscription = await agent.subscribe({ planId, origins: [gate.url] });
    await agent.fetch(`${gate.url}/metered?n=1`);
    await agent.setMaxOverage(subscription, 5_000_000n);
    error = undefined;
    expect((await agent.fetch(`${gate.url}/metered?n=2`)).status).to.equal(200);
    error = "AllowanceExhausted";
    const before = gate.seen.length;
    expect((await agent.fetch(`${gate.url}/metered?n=3`)).status).to.equal(402);
    expect(gate.seen).to.have.length(before + 1);
  });

  it("does not retry a refusal that the agent's changes do not explain", async () => {
    let error: string | undefined;
    const gate = await startGate(relay, planId, { refuse: () => error });
    const { agent } = agentOn();
    const subscription = await agent.subscribe({ planId, origins: [gate.url] });
    const requestsOf = async (code: string | undefined) => {
      error = code;
      const before = gate.seen.length;
      expect((await agent.fetch(gate.url)).status).to.equal(402);
      return gate.seen.length - before;
    };
    expect(await requestsOf("AllowanceExhausted"), "a new subscription, its cap reached").to.equal(1);
    await agent.setMaxOverage(subscription, 5_000_000n);
    await agent.pause(subscription);
    expect(await requestsOf(undefined), "paused by the agent").to.equal(1);
    await agent.resume(subscription);
    await agent.setMaxOverage(subscription, 1n);
    expect(await requestsOf("AllowanceExhausted"), "a lowered cap").to.equal(1);
    await agent.cancel(subscription, { atPeriodEnd: true });
    expect(await requestsOf("SubscriptionNotActive"), "resumed a moment ago").to.equal(4);
  });

  it("honours Retry-After of a refusal after a change, and does not wait beyond its retry budget", async () => {
    let retryAfter = "1";
    let stale = 0;
    const gate = await startGate(relay, planId, {
      refuse: () => (stale-- > 0 ? "SubscriptionNotActive" : undefined),
      headers: () => ({ "retry-after": retryAfter }),
    });
    const waits: number[] = [];
    const { agent } = agentOn({
      sleep: async (ms: number) => {
        waits.push(ms);
      },
    });
    const subscription = await agent.subscribe({ planId, origins: [gate.url] });
    stale = 1;
    expect((await agent.fetch(gate.url)).status).to.equal(200);
    expect(waits).to.deep.equal([1_000]);
    await agent.pause(subscription);
    await agent.resume(subscription);
    [stale, retryAfter] = [1, "30"];
    expect((await agent.fetch(gate.url)).status).to.equal(402);
    expect(waits).to.deep.equal([1_000]);
  });

  it("pays one-time once the subscription is over, but not around a reached cap or an empty wallet", async () => {
    const chain = new Chain();
    const facilitator = await startFacilitator(chain);
    let error = "";
    const provider = await startProvider(chain, facilitator.url, {
      body: (body, { headers }) => (headers["x-service-sub"] ? { ...body, error, plans: [offeredPlan] } : body),
    });
    const ledger = memoryLedger();
    await ledger.append(liveSubscription(provider.url, facilitator.url));
    const { agent } = agentFor(facilitator.url, { ledger });

    for (const [code, status] of [
      ["AllowanceExhausted", 402],
      ["InsufficientFunds", 402],
      ["SubscriptionNotActive", 200],
    ] as const) {
      error = code;
      const response = await agent.fetch(provider.url);
      expect(response.status, code).to.equal(status);
      if (status === 402) expect(await response.json()).to.have.property("error", code);
    }
    expect(chain.transfers).to.have.length(1);
  });

  it("pays at once on a route that accepts no subscription, also right after subscribing", async () => {
    const chain = new Chain();
    const facilitator = await startFacilitator(chain);
    const provider = await startProvider(chain, facilitator.url, {
      body: (body, { headers }) => (headers["x-service-sub"] ? { ...body, error: "SubscriptionNotActive" } : body),
    });
    const ledger = memoryLedger();
    await ledger.append(liveSubscription(provider.url, facilitator.url));
    const { agent } = agentFor(facilitator.url, { ledger });
    expect((await agent.fetch(provider.url)).status).to.equal(200);
    expect(provider.seen).to.have.length(2);
  });
});

const offeredPlan = { planId: `0x${"cd".repeat(32)}`, amount: "1", interval: 60, token: TOKEN };

/** A ledger entry. The test does not read it from the chain. */
function liveSubscription(origin: string, facilitator: string): LedgerRecord {
  return {
    type: "subscription",
    id: `0x${"ab".repeat(32)}`,
    state: "live",
    subscriber: addressOf("payer"),
    chainId: CHAIN_ID,
    network: NETWORK,
    turnpike: TURNPIKE,
    facilitator,
    planId: `0x${"cd".repeat(32)}`,
    provider: addressOf("provider"),
    token: TOKEN,
    payTo: addressOf("provider"),
    amount: "1",
    intervalSec: 60,
    months: 0,
    graceSec: 0,
    cap: "0",
    periods: 12,
    origins: [origin],
    secret: { from: "root", planId: `0x${"cd".repeat(32)}`, n: 0 },
  };
}
