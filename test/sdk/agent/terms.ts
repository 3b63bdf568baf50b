import { expect } from "chai";
import { HDNodeWallet, id } from "ethers";
import { ethers, network } from "hardhat";
import { type VoucherRequest, walletFromKey } from "turnpike/agent";
import { acceptPlan, applyPayTo, deprecatePlan, issueVoucher, offerPlan, proposePayTo } from "turnpike/chain";
import type { VoucherWire } from "turnpike/facilitator";
import type { Address, Hex } from "turnpike/protocol";
import { bare, highS } from "../../support/signature-forms";
import { inWords, walletCodeOf } from "../../support/wallet-code";
import { startRpc } from "./support/hardhat-rpc";
import { rejection } from "./support/rejection";
import { advance, INTERVAL_SEC, PRICE, type Relay, relayBeforeEach } from "./support/relay";
import { addressOf, agentFor, CHAIN_ID, testKey } from "./support/world";

const DAY = 86_400;

describe("agent: months, ends, vouchers and scheduled changes, judged by the contracts", () => {
  let relay: Relay;
  let planId: Hex;
  const policyOf = () => ({ perPayment: PRICE, perDay: 1_000n * PRICE, tokens: [relay.addresses.token] });
  const agentWith = (policy: object = {}) =>
    agentFor(relay.url, {
      policy: { ...policyOf(), ...policy },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
    }).agent;
  /** whose budget of a day is one period */
  const thrifty = (more: object = {}) =>
    agentFor(relay.url, {
      policy: { ...policyOf(), perDay: PRICE },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
      ...more,
    });
  const paid = async () => (await relay.token.balanceOf(addressOf("treasury"))) as bigint;

  relayBeforeEach((fresh) => {
    ({ relay, planId } = fresh);
  });

  it("subscribes to a plan in calendar months, and shows its length", async () => {
    const monthly = await relay.createPlan({ months: 1 });
    const subscription = await agentWith().subscribe({ planId: monthly });
    expect(subscription).to.include({ months: 1, intervalSec: 30 * DAY, status: "ACTIVE" });
    const start = new Date((await relay.nowSec()) * 1_000);
    const end = new Date(subscription.paidThroughSec * 1_000);
    const lastDay = new Date(Date.UTC(end.getUTCFullYear(), end.getUTCMonth() + 1, 0)).getUTCDate();
    expect(end.getUTCDate()).to.equal(Math.min(start.getUTCDate(), lastDay));
    expect((end.getUTCFullYear() - start.getUTCFullYear()) * 12 + end.getUTCMonth() - start.getUTCMonth()).to.equal(1);
  });

  it("L27 ends by itself at the end that it was given, which can be moved and removed", async () => {
    const agent = agentWith();
    const until = (await relay.nowSec()) + 2 * INTERVAL_SEC;
    const subscription = await agent.subscribe({ planId, until });
    expect(subscription.untilSec).to.equal(until);
    const later = new Date((until + 60) * 1_000);
    expect((await agent.setUntil(subscription, later)).untilSec).to.equal(until + 60);
    expect((await agent.setUntil(subscription, undefined)).untilSec).to.equal(undefined);
    await agent.setUntil(subscription, subscription.paidThroughSec + 10);
    await advance(subscription.paidThroughSec + 10 - (await relay.nowSec()));
    expect(await relay.turnpike.statusOf(subscription.idHash)).to.equal(5n);
    await expect(relay.turnpike.renew(subscription.idHash)).to.be.revertedWithCustomError(
      relay.turnpike,
      "SubscriptionNotActive",
    );
  });

  it("sets the end of a subscription that it has already", async () => {
    const agent = agentWith();
    await agent.subscribe({ planId });
    const until = (await relay.nowSec()) + INTERVAL_SEC;
    expect(await agent.subscribe({ planId, until })).to.include({ existing: true, untilSec: until });
  });

  it("refuses an end that is no time, and signs up with one only where the policy wants it", async () => {
    expect((await rejection(agentWith().subscribe({ planId, until: 1.5 }))).code).to.equal("InvalidRequest");
    const refused = await rejection(agentWith({ requireUntil: true }).subscribe({ planId }));
    expect(refused).to.include({ code: "PolicyRefused", reason: "until" });
    expect(await paid()).to.equal(0n);
  });

  it("D22 signs and posts nothing for an end that is not in the future, and signs up without one at once", async () => {
    const { agent, signed } = thrifty();
    const now = await relay.nowSec();
    for (const until of [1, new Date("2020-01-01"), now - 1, now]) {
      const refused = await rejection(agent.subscribe({ planId, until }));
      expect(refused.code).to.equal("InvalidRequest");
      expect(refused.message).to.contain("until").and.to.contain("Nothing was signed");
    }
    expect(signed).to.deep.equal([]);
    expect((await agent.budget()).spent).to.equal(0n);
    const made = await agent.subscribe({ planId });
    for (const until of [1, now]) {
      expect((await rejection(agent.setUntil(made, until))).code).to.equal("InvalidRequest");
    }
    expect(signed).not.to.include("SetNext");
    expect(relay.seen.filter(({ method }) => method === "POST")).to.have.length(1);
  });

  it("D22 signs again over the same secret when the end or the voucher of a refused signup has passed", async () => {
    const [, provider] = await ethers.getSigners();
    if (!provider) throw new Error("Hardhat has accounts");
    const endsSoon = async (lastSec: number, name: string) =>
      ({
        until: { until: lastSec },
        voucher: {
          voucher: (request: VoucherRequest) =>
            issueVoucher(provider, request, { ...request, firstAmount: 0n, firstInterval: DAY, deadlineSec: lastSec }),
        },
      })[name];
    for (const name of ["until", "voucher"]) {
      const { agent, signed } = thrifty();
      const plan = await relay.createPlan();
      const soon = (await relay.nowSec()) + 60;
      relay.steps.push({ refuse: "UntilReached" });
      const refused = await rejection(agent.subscribe({ planId: plan, ...(await endsSoon(soon, name)) }));
      expect(refused.code).to.equal("UntilReached");
      const lastSec = name === "until" ? soon - 1 : soon;
      expect(refused.details.usableUntilSec).to.equal(lastSec);
      expect(refused.message).to.contain(new Date(lastSec * 1_000).toISOString());
      await advance(61);
      const made = await agent.subscribe({ planId: plan });
      expect(made).to.include({ status: "ACTIVE", untilSec: undefined });
      expect(
        signed.filter((type) => type === "Subscribe"),
        name,
      ).to.have.length(2);
      const secrets = relay.seen.flatMap(({ body }) => (body.includes(plan) ? [JSON.parse(body).secretHash] : []));
      expect(new Set(secrets).size, name).to.equal(1);
      await agent.cancel(made);
    }
    expect(await paid()).to.equal(2n * PRICE);
  });

  it("D22 has its charge in the budget at once when its own RPC shows that a signup can succeed no more", async () => {
    const until = (await relay.nowSec()) + 60;
    const wallet = walletFromKey(testKey("payer"));
    const slow: typeof wallet = {
      ...wallet,
      signTypedData: async (domain, types, message) => {
        const signature = await wallet.signTypedData(domain, types, message);
        if ("Subscribe" in types) await advance(120);
        return signature;
      },
    };
    const { agent } = thrifty({ rpc: (await startRpc()).url, wallet: slow });
    expect((await rejection(agent.subscribe({ planId, until }))).code).to.equal("UntilReached");
    expect((await agent.budget()).spent).to.equal(0n);
    expect((await agent.subscribe({ planId: await relay.createPlan() })).status).to.equal("ACTIVE");
    const alone = thrifty({ wallet: slow });
    const later = (await relay.nowSec()) + 60;
    const other = await relay.createPlan();
    const held = await rejection(alone.agent.subscribe({ planId: other, until: later }));
    const { spent } = await alone.agent.budget();
    expect([held.code, spent], "no RPC of its own").to.deep.equal(["UntilReached", PRICE]);
    expect(held.details.heldUntilSec).to.be.greaterThan(Date.now() / 1_000 + DAY - 600);
  });

  describe("with a voucher", () => {
    const voucherOf =
      (firstAmount: bigint, firstInterval: number, stranger?: HDNodeWallet) =>
      async (request: VoucherRequest): Promise<VoucherWire> => {
        const [, provider] = await ethers.getSigners();
        const signer = stranger ?? provider;
        if (!signer) throw new Error("Hardhat has accounts");
        const deadlineSec = (await relay.nowSec()) + 600;
        return issueVoucher(signer, request, { ...request, firstAmount, firstInterval, deadlineSec });
      };

    it("L29 starts with the provider's trial, and renews at the price", async () => {
      const trial = await agentWith().subscribe({ planId, voucher: voucherOf(0n, 7 * DAY) });
      expect(await paid()).to.equal(0n);
      expect(trial.paidThroughSec).to.equal((await relay.nowSec()) + 7 * DAY);
      await advance(7 * DAY);
      await relay.turnpike.renew(trial.idHash);
      expect(await paid()).to.equal(PRICE);
    });

    it("counts what the first period costs against the budget, and nothing more", async () => {
      const agent = agentWith({ perDay: PRICE, perSubscription: 2n * PRICE });
      const half = voucherOf(PRICE / 2n, 0);
      await agent.subscribe({ planId, voucher: half });
      await agent.subscribe({ planId: await relay.createPlan(), voucher: half });
      expect(await paid()).to.equal(PRICE);
      const third = await relay.createPlan();
      expect((await rejection(agent.subscribe({ planId: third, voucher: half }))).code).to.equal("PolicyRefused");
    });

    it("refuses one above the price before it signs, and a stranger's on chain", async () => {
      const dear = await rejection(agentWith().subscribe({ planId, voucher: voucherOf(PRICE + 1n, 0) }));
      expect(dear).to.include({ code: "PolicyRefused", reason: "voucher" });
      for (const firstInterval of [0, INTERVAL_SEC]) {
        const empty = await rejection(agentWith().subscribe({ planId, voucher: voucherOf(PRICE, firstInterval) }));
        expect(empty).to.include({ code: "PolicyRefused", reason: "voucher" });
        expect(empty.message).to.match(/^The voucher offers what the plan has without it\./);
      }
      const stranger = HDNodeWallet.fromSeed(id("stranger with vouchers"));
      const forged = await rejection(agentWith().subscribe({ planId, voucher: voucherOf(0n, 0, stranger) }));
      expect(forged.code).to.equal("InvalidVoucher");
      expect(await paid()).to.equal(0n);
    });
  });

  it("signs up by a voucher whose signature has a v of 0 or 1, and by none with a high s", async () => {
    const issued = (form: (signature: Hex) => Hex) => async (request: VoucherRequest) => {
      const [, provider] = await ethers.getSigners();
      const deadlineSec = (await relay.nowSec()) + 600;
      const terms = { ...request, firstAmount: 0n, firstInterval: DAY, deadlineSec };
      const voucher = await issueVoucher(provider ?? expect.fail("Hardhat has accounts"), request, terms);
      return { ...voucher, signature: form(voucher.signature as Hex) };
    };
    const { agent } = thrifty({ rpc: (await startRpc()).url });
    const high = await rejection(agent.subscribe({ planId, voucher: issued((signature) => bare(highS(signature))) }));
    expect(high).to.include({ code: "PolicyRefused", reason: "voucher" });
    expect((await agent.subscribe({ planId, voucher: issued(bare) })).status).to.equal("ACTIVE");
  });

  describe("with a voucher that is of no use", () => {
    const issued = async (request: VoucherRequest, more: object = {}): Promise<VoucherWire> => {
      const [, provider] = await ethers.getSigners();
      if (!provider) throw new Error("Hardhat has accounts");
      const offer = { firstAmount: 0n, firstInterval: DAY, deadlineSec: (await relay.nowSec()) + 600 };
      return issueVoucher(provider, request, { ...request, ...offer, ...more });
    };

    it("T2 signs nothing over one for another subscriber or secret, and can sign up at once", async () => {
      const { agent } = thrifty({ rpc: (await startRpc()).url });
      for (const other of [{ subscriber: addressOf("stranger") }, { secretHash: id("another secret") as Hex }]) {
        const error = await rejection(agent.subscribe({ planId, voucher: (request) => issued(request, other) }));
        expect(error).to.include({ code: "PolicyRefused", reason: "voucher" });
        expect(error.message).to.match(
          /^The voucher is not signed by 0x\w{40} over this plan, subscriber and secret\. /,
        );
      }
      expect((await agent.budget()).spent).to.equal(0n);
      expect((await agent.subscribe({ planId, voucher: issued })).status).to.equal("ACTIVE");
    });

    it("T2 signs nothing over one that is not its signer's where no RPC shows whether the signer is a contract", async () => {
      const { agent, signed } = thrifty();
      const other = { secretHash: id("another secret") as Hex };
      const error = await rejection(agent.subscribe({ planId, voucher: (request) => issued(request, other) }));
      expect(error).to.include({ code: "PolicyRefused", reason: "voucher" });
      expect(error.message).to.match(/ Nothing was signed\. .*configure `rpc` for the plan's chain/);
      expect(signed.filter((type) => type === "Subscribe")).to.deep.equal([]);
      expect((await agent.budget()).spent).to.equal(0n);
      expect((await agent.subscribe({ planId, voucher: issued })).status).to.equal("ACTIVE");
    });

    it("signs nothing over one that is over, and names its deadline", async () => {
      const agent = agentWith();
      const deadlineSec = (await relay.nowSec()) - 1;
      const error = await rejection(
        agent.subscribe({ planId, voucher: (request) => issued(request, { deadlineSec }) }),
      );
      expect(error).to.include({ code: "PolicyRefused", reason: "voucher" });
      expect(error.message).to.match(new RegExp(`^The voucher's deadline is ${deadlineSec}, and the chain's time is `));
      expect((await agent.subscribe({ planId, voucher: issued })).status).to.equal("ACTIVE");
    });
  });

  it("names the successor of a deprecated plan to a subscriber who would change to it", async () => {
    const agent = agentWith();
    const subscription = await agent.subscribe({ planId });
    const [, provider] = await ethers.getSigners();
    const closed = await relay.createPlan();
    await deprecatePlan(provider as never, relay.addresses.turnpike, { planId: closed, successor: planId });
    for (const at of ["now", "periodEnd"] as const) {
      const error = await rejection(agent.changePlan(subscription, { planId: closed, at }));
      expect(error).to.deep.include({ code: "PlanDeprecated", details: { planId: closed, successor: planId } });
    }
  });

  it("L31 subscribes to a plan that was passed on and whose payee moved, and pays the new one", async () => {
    const [, provider, heir] = await ethers.getSigners();
    if (!provider || !heir) throw new Error("Hardhat has accounts");
    const { turnpike } = relay.addresses;
    const planId = await relay.createPlan({ payTo: provider.address as Address });
    await offerPlan(provider, turnpike, { planId, nextProvider: heir.address as Address });
    await acceptPlan(heir, turnpike, planId);
    const stranger = addressOf("stranger");
    await proposePayTo(heir, turnpike, { planId, payTo: stranger });
    await advance(7 * DAY);
    await applyPayTo(provider, turnpike, planId);
    const subscription = await agentWith().subscribe({ planId });
    expect(subscription).to.include({ provider: heir.address, payTo: stranger, status: "ACTIVE" });
    expect(await relay.token.balanceOf(stranger)).to.equal(PRICE);
    expect(await paid()).to.equal(0n);
  });

  it("L28 moves to another plan from the next charged period on, unless that is dropped", async () => {
    const agent = agentWith();
    const smaller = await relay.createPlan({ amount: PRICE / 4n });
    const subscription = await agent.subscribe({ planId });
    const scheduled = await agent.changePlan(subscription, { planId: smaller, at: "periodEnd" });
    expect(scheduled).to.include({ planId, nextPlanId: smaller });
    expect((await agent.changePlan(subscription, { planId, at: "periodEnd" })).nextPlanId).to.equal(undefined);
    await agent.changePlan(subscription, { planId: smaller, at: "periodEnd" });
    await advance(INTERVAL_SEC);
    await relay.turnpike.renew(subscription.idHash);
    expect(await paid()).to.equal(PRICE + PRICE / 4n);
    const [listed] = await agent.list();
    expect(listed).to.include({ planId: smaller, amount: PRICE / 4n, nextPlanId: undefined });
  });

  it("voids a signup whose outcome it does not know", async () => {
    const agent = agentWith();
    relay.steps.push(...Array.from({ length: 50 }, () => "drop" as const));
    const pending = await rejection(agent.subscribe({ planId }));
    expect(pending.code).to.equal("PaymentPending");
    const { idHash } = pending.details as { idHash: Hex };
    relay.steps.length = 0;
    expect(await agent.void({ idHash })).to.equal(undefined);
    expect(await relay.turnpike.statusOf(idHash)).to.equal(5n);
    expect(await paid()).to.equal(0n);
    const next = await agent.subscribe({ planId });
    expect(next.idHash).not.to.equal(idHash);
    expect(await paid()).to.equal(PRICE);
  });

  it("finds out that it is too late to void, and has the subscription", async () => {
    const agent = agentWith();
    relay.steps.push("relay_then_drop", ...Array.from({ length: 50 }, () => "drop" as const));
    relay.hidesSubscriptions = true;
    const { idHash } = (await rejection(agent.subscribe({ planId }))).details as { idHash: Hex };
    relay.steps.length = 0;
    relay.hidesSubscriptions = false;
    expect(await agent.void({ idHash })).to.include({ idHash, status: "ACTIVE" });
  });

  it("signs up for a contract wallet without gas, and raises its cap, by permits in bytes form", async () => {
    const [address, owner] = [addressOf("a smart wallet"), walletFromKey(testKey("its owner"))];
    await network.provider.send("hardhat_setCode", [address, walletCodeOf(addressOf("its owner"))]);
    await relay.fund(address);
    const { agent } = agentFor(relay.url, {
      wallet: {
        getAddress: async () => address,
        signTypedData: async (domain, types, message) => inWords(await owner.signTypedData(domain, types, message)),
      },
      policy: policyOf(),
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
    });
    const subscription = await agent.subscribe({ planId });
    expect(subscription).to.include({ subscriber: address, status: "ACTIVE", secrets: "random" });
    expect(await relay.approval(address)).to.equal(11n * PRICE);
    await advance(INTERVAL_SEC);
    await relay.turnpike.renew(subscription.idHash);
    expect((await agent.setMaxOverage(subscription, PRICE)).maxOverage).to.equal(PRICE);
    expect(await relay.approval(address)).to.equal(24n * PRICE);
  });
});
