import { expect } from "chai";
import type { Subscription } from "turnpike/agent";
import { HEADER } from "turnpike/protocol";
import { readReport } from "../../examples/agent";
import { codeOf, recordOf, spentBy, startSandbox, type TestAgent, UNIT, until, type World } from "../support/sandbox";

describe("end to end > subscriptions", function () {
  this.timeout(120_000);
  let world: World;
  let count = 0;

  before(async () => {
    world = await startSandbox();
  });
  after(() => world.stop());

  const report = (id: string) => fetch(`${world.provider.url}/report`, { headers: { [HEADER.subscription]: id } });
  const newAgent = () => world.agent(`subscriber ${++count}`);
  const newSubscriber = async (): Promise<TestAgent & { subscription: Subscription }> => {
    const one = await newAgent();
    const subscription = await one.agent.subscribe({ planId: world.plans.reader, origins: [world.provider.url] });
    return { ...one, subscription };
  };

  it("signs up without gas, is billed the first period at once and served from then on", async () => {
    const { agent, address } = await newAgent();
    const spent = await spentBy(world, address, async () => {
      expect((await readReport(agent, world.provider.url, world.plans.reader)).status).to.equal(200);
    });
    expect(spent).to.equal(10n * UNIT);
    const again = await spentBy(world, address, async () => {
      for (let request = 0; request < 3; request += 1) {
        expect((await agent.fetch(`${world.provider.url}/report`)).status).to.equal(200);
      }
    });
    expect(again).to.equal(0n);
    expect(await world.chain.provider.getTransactionCount(address)).to.equal(0);
  });

  it("takes the plan from the 402 of a URL", async () => {
    const { agent } = await newAgent();
    const subscription = await agent.subscribe({ url: `${world.provider.url}/report` });
    expect(subscription).to.include({ planId: world.plans.reader, status: "ACTIVE" });
    expect((await agent.fetch(`${world.provider.url}/report`)).status).to.equal(200);
  });

  it("passes a subscriber straight through a gate with several options, and offers a stranger all of them", async () => {
    const url = `${world.provider.url}/choice`;
    const body = (await (await fetch(url)).json()) as { accepts: unknown[]; plans: { planId: string }[] };
    expect(body.plans.map(({ planId }) => planId)).to.deep.equal([world.plans.reader]);
    expect(body.accepts).to.have.length(1);
    const { agent, address } = await newSubscriber();
    const spent = await spentBy(world, address, async () => {
      expect(await (await agent.fetch(url)).json()).to.deep.equal({ paidBy: "subscription" });
    });
    expect(spent).to.equal(0n);
    const stranger = await newAgent();
    expect(await (await stranger.agent.pay(url)).json()).to.deep.equal({ paidBy: "one-time" });
  });

  it("C9 serves nobody who knows only what the chain shows", async () => {
    const { subscription, address } = await newSubscriber();
    const { idHash } = subscription;
    const logs = await world.chain.provider.getLogs({
      address: world.contracts.turnpike,
      fromBlock: 0,
      topics: [null, idHash],
    });
    expect(logs).to.not.deep.equal([]);
    for (const guess of [idHash, `${address}${idHash.slice(2)}`, `${address}${"00".repeat(32)}`]) {
      const response = await report(guess);
      expect(response.status).to.equal(402);
    }
    const seen =
      JSON.stringify(logs) + (await world.chain.provider.getTransaction(logs[0]?.transactionHash ?? ""))?.data;
    expect(seen).to.not.contain(subscription.id.slice(42));
  });

  it("C11 serves no subscription to another plan", async () => {
    const { agent } = await newAgent();
    const { id } = await agent.subscribe({ planId: world.plans.small });
    expect((await report(id)).status).to.equal(402);
  });

  it("D16 never sends its id to an origin that was not named", async () => {
    const { agent } = await newSubscriber();
    const sent: string[] = [];
    const spy = await world.agent(`subscriber ${count}`, {
      tokens: 0n,
      fetch: async (input, init) => {
        const request = new Request(input, init);
        sent.push(...[request.headers.get(HEADER.subscription)].filter((value) => value !== null));
        return fetch(input, init);
      },
    });
    expect((await spy.agent.fetch(`${world.specialist.url}/advice`)).status).to.be.oneOf([200, 402]);
    expect(sent).to.deep.equal([]);
    expect((await agent.list()).map(({ origins }) => origins)).to.deep.equal([[world.provider.url]]);
  });

  it("C12 is refused soon after a pause and a cancellation, and served again after a resumption", async () => {
    const { agent, subscription } = await newSubscriber();
    const { id, idHash } = subscription;
    expect((await report(id)).status).to.equal(200);

    await agent.pause(subscription);
    expect((await recordOf(world, idHash)).status).to.equal("PAUSED");
    await until("the refusal", async () => (await report(id)).status === 402);
    expect(await (await report(id)).json()).to.include({ error: "SubscriptionNotActive" });

    await agent.resume(idHash);
    await until("the service", async () => (await report(id)).status === 200);

    await agent.cancel(idHash);
    expect((await recordOf(world, idHash)).status).to.equal("CANCELLED");
    await until("the refusal", async () => (await report(id)).status === 402);
  });

  it("goes on until the period's end when it is cancelled for then", async () => {
    const { agent, subscription } = await newSubscriber();
    await agent.cancel(subscription, { atPeriodEnd: true });
    expect((await recordOf(world, subscription.idHash)).status).to.equal("ACTIVE");
    expect((await report(subscription.id)).status).to.equal(200);
  });

  it("moves to a fresh id that alone is served after a rekey", async () => {
    const { agent, subscription } = await newSubscriber();
    const fresh = await agent.rekey(subscription);
    expect(fresh.id).to.not.equal(subscription.id);
    await until("the refusal of the old id", async () => (await report(subscription.id)).status === 402);
    expect((await report(fresh.id)).status).to.equal(200);
  });

  it("is found again by an agent that has lost everything but its key", async () => {
    const { subscription } = await newSubscriber();
    const reborn = await world.agent(`subscriber ${count}`, { tokens: 0n });
    const found = await reborn.agent.recover({ planId: world.plans.reader, origins: [world.provider.url] });
    expect(found.map(({ id }) => id)).to.deep.equal([subscription.id]);
    expect((await reborn.agent.fetch(`${world.provider.url}/report`)).status).to.equal(200);
  });

  it("rejects a deprecated plan with PlanDeprecated, and charges nothing", async () => {
    const { agent, address } = await newAgent();
    const spent = await spentBy(world, address, async () => {
      expect(await codeOf(agent.subscribe({ planId: world.plans.retired }))).to.equal("PlanDeprecated");
    });
    expect(spent).to.equal(0n);
  });

  it("rejects a signup that the wallet cannot pay with InsufficientFunds", async () => {
    const poor = await world.agent("poor subscriber", { tokens: UNIT });
    expect(await codeOf(poor.agent.subscribe({ planId: world.plans.reader }))).to.equal("InsufficientFunds");
  });
});
