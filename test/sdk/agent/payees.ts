import { setBalance } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import { ethers } from "hardhat";
import type { AgentEvent } from "turnpike/agent";
import { acceptPlan, applyPayTo, offerPlan, proposePayTo, withdrawPayTo } from "turnpike/chain";
import type { Address, Hex } from "turnpike/protocol";
import { startRpc } from "./support/hardhat-rpc";
import { rejection } from "./support/rejection";
import { advance, PRICE, type Relay, relayBeforeEach } from "./support/relay";
import { serve } from "./support/servers";
import { addressOf, agentFor, CHAIN_ID } from "./support/world";

const DAY = 86_400;

describe("agent: plans whose payee or provider moves", () => {
  let relay: Relay;
  let planId: Hex;

  relayBeforeEach((fresh) => {
    ({ relay, planId } = fresh);
  });

  const agentWith = (policy: object, more: object = {}) =>
    agentFor(relay.url, {
      policy: { perPayment: PRICE, perDay: 1_000n * PRICE, tokens: [relay.addresses.token], ...policy },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
      ...more,
    });

  const signers = async () => {
    const [, provider, heir] = await ethers.getSigners();
    if (!provider || !heir) throw new Error("Hardhat has accounts");
    return { provider, heir };
  };

  /** Proposes another payee. @returns from when on it can be applied, unix seconds */
  const propose = async (payTo: Address): Promise<number> => {
    await proposePayTo((await signers()).provider, relay.addresses.turnpike, { planId, payTo });
    return (await relay.nowSec()) + 7 * DAY;
  };

  const passOn = async (id: Hex): Promise<Address> => {
    const { provider, heir } = await signers();
    const nextProvider = heir.address as Address;
    // Both agree that the provider is its payee, and so what the next one takes over.
    const payee = await ethers.getImpersonatedSigner(addressOf("treasury"));
    await setBalance(payee.address, 10n ** 18n);
    for (const by of [provider, payee])
      await proposePayTo(by, relay.addresses.turnpike, { planId: id, payTo: provider.address as Address });
    await offerPlan(provider, relay.addresses.turnpike, { planId: id, nextProvider });
    await acceptPlan(heir, relay.addresses.turnpike, id);
    return nextProvider;
  };

  const changesIn = (events: readonly AgentEvent[]) =>
    events.flatMap((event) => (event.type === "subscription.payee_change" ? [event] : []));

  for (const own of ["its own RPC", "the Facilitator"]) {
    describe(`with onPayeeChange, by ${own}`, () => {
      const watching = async (onPayeeChange: "cancel" | "notify") =>
        agentWith({ onPayeeChange }, own === "its own RPC" ? { rpc: (await startRpc()).url } : {});

      it("T12 emits each proposal and each move once, and goes on", async () => {
        const { agent, events } = await watching("notify");
        const { idHash } = await agent.subscribe({ planId });
        await agent.list();
        expect(changesIn(events)).to.deep.equal([]);
        const stranger = addressOf("stranger");
        const effectiveAtSec = await propose(stranger);
        await agent.list();
        await agent.list();
        const seen = { type: "subscription.payee_change", idHash, planId, response: "notify" };
        const payTo = addressOf("treasury");
        const first = { ...seen, knownPayTo: payTo, payTo, proposed: { payTo: stranger, effectiveAtSec } };
        expect(changesIn(events)).to.deep.equal([first]);
        await advance(7 * DAY);
        await applyPayTo((await signers()).heir, relay.addresses.turnpike, planId);
        await agent.list();
        const [listed] = await agent.list();
        expect(listed).to.include({ payTo: stranger, status: "ACTIVE", ending: false });
        const moved = { ...seen, knownPayTo: payTo, payTo: stranger, proposed: undefined };
        expect(changesIn(events)).to.deep.equal([first, moved]);
      });

      it("T12 cancels before a proposed payee can get anything: with the period, or at once where debits could reach it", async () => {
        const { agent, events } = await watching("cancel");
        const plain = await agent.subscribe({ planId });
        const metered = await agent.subscribe({ planId, maxOverage: 1n, another: true });
        await propose(addressOf("stranger"));
        const listed = await agent.list();
        expect(listed.map(({ idHash, status, ending }) => [idHash, status, ending])).to.deep.equal([
          [plain.idHash, "ACTIVE", true],
        ]);
        expect(await relay.turnpike.statusOf(metered.idHash)).to.equal(5n);
        expect(changesIn(events).map(({ response }) => response)).to.deep.equal(["cancel", "cancel"]);
      });
    });
  }

  it("T12 tries again to cancel after the Facilitator refused", async () => {
    const { agent } = agentWith({ onPayeeChange: "cancel" });
    await agent.subscribe({ planId });
    await propose(addressOf("stranger"));
    relay.steps.push({ refuse: "CapTooLarge" });
    expect((await agent.list())[0]).to.include({ ending: false });
    expect((await agent.list())[0]).to.include({ ending: true });
  });

  it("takes a proposal that was withdrawn for none, and looks at none where the policy does not say so", async () => {
    const { agent, events } = agentWith({ onPayeeChange: "notify" });
    const careless = agentWith({}, { role: "careless" });
    await relay.fund(addressOf("careless"));
    await agent.subscribe({ planId });
    await careless.agent.subscribe({ planId });
    for (let turn = 0; turn < 2; turn++) {
      await propose(addressOf("stranger"));
      await agent.list();
      await withdrawPayTo((await signers()).provider, relay.addresses.turnpike, planId);
      await agent.list();
    }
    await careless.agent.list();
    expect(changesIn(events)).to.have.lengthOf(2);
    expect(changesIn(careless.events)).to.deep.equal([]);
  });

  it("looks before fetch uses a subscription, and not again for six hours", async () => {
    const gate = await serve(() => ({ status: 200, json: {} }));
    let nowSec = await relay.nowSec();
    const { agent, events } = agentWith({ onPayeeChange: "notify" }, { clock: { nowSec: () => nowSec } });
    await agent.subscribe({ planId, origins: [gate.url] });
    await agent.fetch(gate.url);
    await propose(addressOf("stranger"));
    nowSec += 6 * 3_600 - 1;
    await agent.fetch(gate.url);
    expect(changesIn(events)).to.deep.equal([]);
    nowSec += 1;
    await agent.fetch(gate.url);
    await agent.fetch(gate.url);
    expect(changesIn(events)).to.have.lengthOf(1);
  });

  it("refuses an answer to payee changes that it does not know", () => {
    expect(() => agentWith({ onPayeeChange: "ignore" })).to.throw("policy.onPayeeChange");
  });

  describe("after its plan was passed on", () => {
    it("A37 changes to a plan of the present provider, which the signature binds to its payee", async () => {
      const { agent } = agentWith({});
      const subscription = await agent.subscribe({ planId });
      const next = await relay.createPlan({ amount: 2n * PRICE });
      await passOn(planId);
      const heir = await passOn(next);
      expect(await agent.changePlan(subscription, { planId: next })).to.include({ planId: next, provider: heir });
    });

    it("A37 schedules a change by what it signed: the contract refuses another payee, without an RPC of its own", async () => {
      const next = await relay.createPlan({ amount: PRICE / 2n });
      const { agent } = agentWith({});
      const subscription = await agent.subscribe({ planId });
      await passOn(planId);
      await passOn(next);
      const change = { planId: next, at: "periodEnd" } as const;
      relay.lieAboutPlan = (plan) => (plan.planId === next ? { ...plan, payTo: addressOf("stranger") } : plan);
      expect((await rejection(agent.changePlan(subscription, change))).code).to.equal("TermsDiffer");
      delete relay.lieAboutPlan;
      expect((await agent.changePlan(subscription, change)).nextPlanId).to.equal(next);
    });

    it("A37 signs no change to a plan that stayed with the former provider, or whose payee a Facilitator forges", async () => {
      const next = await relay.createPlan();
      const rpc = (await startRpc()).url;
      const { agent, signed } = agentWith({}, { rpc });
      const subscription = await agent.subscribe({ planId });
      await passOn(planId);
      expect((await rejection(agent.changePlan(subscription, { planId: next }))).code).to.equal("PlanMismatch");
      await passOn(next);
      relay.lieAboutPlan = (plan) => (plan.planId === next ? { ...plan, payTo: addressOf("stranger") } : plan);
      expect((await rejection(agent.changePlan(subscription, { planId: next }))).reason).to.equal("plan_terms");
      expect(signed).not.to.include("ChangePlan");
    });
  });
});
