import { expect } from "chai";
import type { Hex } from "turnpike/protocol";
import { rejection } from "./support/rejection";
import { advance, INTERVAL_SEC, PRICE, type Relay, relayBeforeEach } from "./support/relay";
import { type AgentUnderTest, addressOf, agentFor, CHAIN_ID } from "./support/world";

/** The Facilitator submits what it was given, and denies it. */
describe("an agent whose Facilitator takes a signature and says that it refused it", () => {
  let relay: Relay;
  let planId: Hex;

  relayBeforeEach((fresh) => {
    ({ relay, planId } = fresh);
  });

  const agentWith = (perDay: bigint): AgentUnderTest =>
    agentFor(relay.url, {
      policy: { perPayment: PRICE, perDay, perSubscription: PRICE, tokens: [relay.addresses.token] },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
    });
  const charged = async () => (await relay.token.balanceOf(addressOf("treasury"))) as bigint;

  for (const code of ["PlanDeprecated", "UnknownPlan", "CapTooLarge", "InvalidSignature", "StaleVersion"]) {
    it(`D2 signs up once, whatever it says: ${code}`, async () => {
      relay.hidesSubscriptions = true;
      const { agent, signed } = agentWith(1_000n * PRICE);
      for (let call = 0; call < 3; call++) {
        relay.steps.push({ relayThenRefuse: code });
        expect((await rejection(agent.subscribe({ planId }))).code).to.equal(code);
      }
      expect(signed.filter((type) => type === "Subscribe")).to.have.length(1);
      expect(await charged()).to.equal(PRICE);
    });
  }

  it("D10 keeps the charge of a denied signup in the budget, also after its deadline", async () => {
    relay.hidesSubscriptions = true;
    relay.steps.push({ relayThenRefuse: "PlanDeprecated" });
    const { agent } = agentWith(PRICE);
    await rejection(agent.subscribe({ planId }));
    await advance(3_600);
    const other = await relay.createPlan();
    expect((await rejection(agent.subscribe({ planId: other }))).reason).to.equal("per_day");
    expect(await charged()).to.equal(PRICE);
  });

  it("D21 signs up again over the same secret after the deadline of a signup that it hides", async () => {
    relay.hidesSubscriptions = true;
    relay.steps.push({ relayThenRefuse: "PlanDeprecated" });
    const { agent, signed } = agentWith(PRICE);
    await rejection(agent.subscribe({ planId }));
    await advance(3_600);
    expect((await rejection(agent.subscribe({ planId, another: true }))).code).to.equal("PaymentPending");
    expect(signed.filter((type) => type === "Subscribe")).to.have.length(2);
    relay.hidesSubscriptions = false;
    expect((await agent.subscribe({ planId })).status).to.equal("ACTIVE");
    expect(await charged()).to.equal(PRICE);
  });

  it("D10 keeps the charge of a denied change in the budget", async () => {
    const { agent } = agentWith(2n * PRICE);
    const subscription = await agent.subscribe({ planId });
    await agent.pause(subscription);
    await advance(INTERVAL_SEC + 3_700);
    for (let call = 0; call < 3; call++) {
      relay.steps.push({ relayThenRefuse: "StaleVersion" }, { relayThenRefuse: "StaleVersion" });
      await agent.resume(subscription).catch(() => undefined);
      await agent.pause(subscription).catch(() => undefined);
      await advance(INTERVAL_SEC + 3_700);
    }
    expect(await charged()).to.equal(2n * PRICE);
  });
});
