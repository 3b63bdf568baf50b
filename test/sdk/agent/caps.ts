import { expect } from "chai";
import { ethers } from "hardhat";
import { type SpendIntent, type VoucherRequest, walletFromKey } from "turnpike/agent";
import { issueVoucher } from "turnpike/chain";
import type { VoucherWire } from "turnpike/facilitator";
import type { Hex } from "turnpike/protocol";
import { rejection } from "./support/rejection";
import { advance, INTERVAL_SEC, PRICE, type Relay, relayBeforeEach } from "./support/relay";
import { serve } from "./support/servers";
import { addressOf, agentFor, CHAIN_ID, NETWORK, testKey } from "./support/world";

const DAY = 86_400;
const HALF = PRICE / 2n;

describe("an agent's caps on the first and the later charges of a subscription", () => {
  let relay: Relay;
  let planId: Hex;

  relayBeforeEach((fresh) => {
    ({ relay, planId } = fresh);
  });

  const subject = (policy: object) =>
    agentFor(relay.url, {
      policy: { perPayment: PRICE, perDay: 1_000n * PRICE, tokens: [relay.addresses.token], ...policy },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
    });
  const paid = async () => (await relay.token.balanceOf(addressOf("treasury"))) as bigint;
  const voucherOf =
    (firstAmount: bigint, firstInterval: number) =>
    async (request: VoucherRequest): Promise<VoucherWire> => {
      const [, provider] = await ethers.getSigners();
      if (!provider) throw new Error("Hardhat has accounts");
      const deadlineSec = (await relay.nowSec()) + 600;
      return issueVoucher(provider, request, { ...request, firstAmount, firstInterval, deadlineSec });
    };
  const refusal = async (call: Promise<unknown>) => {
    const { code, reason } = await rejection(call);
    expect(code).to.equal("PolicyRefused");
    return reason;
  };
  const act = (signed: readonly string[], name: string) => signed.filter((type) => type === name).length;

  it("D20 a cheap introduction hides no dear price: nothing is signed, and no voucher is asked for", async () => {
    const { agent, signed } = subject({ perSubscription: HALF });
    let asked = 0;
    const voucher = (request: VoucherRequest) => {
      asked++;
      return voucherOf(1n, 7 * DAY)(request);
    };
    const shop = await serve(({ url }) => {
      const entry = {
        scheme: "exact",
        network: NETWORK,
        token: relay.addresses.token,
        amount: "1",
        payTo: addressOf("treasury"),
        memo: "AAAAAAAAAAAAAAAAAAAAAA.k1.1.AAAAAAAAAAAAAAAAAAAAAA",
        hoodlayer: { planId, subscriptionScheme: true, facilitator: relay.url },
      };
      const plans = [{ planId, amount: "1", interval: INTERVAL_SEC, token: relay.addresses.token }];
      return { status: 402, json: { version: "1", accepts: [entry], plans, error: "PaymentRequired", message: url } };
    });
    expect(await refusal(agent.subscribe({ url: `${shop.url}/data`, voucher }))).to.equal("limit");
    expect(await refusal(agent.subscribe({ planId, voucher }))).to.equal("limit");
    expect([asked, act(signed, "Subscribe"), act(signed, "Permit")]).to.deep.equal([0, 0, 0]);
  });

  it("refuses a cap that the contract cannot hold before anything is signed", async () => {
    const { agent, signed } = subject({ perDay: 2n ** 100n });
    const subscription = await agent.subscribe({ planId });
    const before = signed.length;
    const cap = 2n ** 88n;
    const next = await relay.createPlan({ amount: HALF });
    for (const call of [
      () => agent.subscribe({ planId, maxOverage: cap, another: true }),
      () => agent.setMaxOverage(subscription, cap),
      () => agent.changePlan(subscription, { planId: next, maxOverage: cap }),
    ]) {
      expect(await rejection(call())).to.include({ code: "CapTooLarge" });
    }
    expect(signed.slice(before)).to.deep.equal([]);
  });

  it("D20 a short period costs what it costs in a day", async () => {
    const hourly = await relay.createPlan({ amount: HALF, intervalSec: 3_600 });
    const bounded = subject({ perSubscription: 24n * HALF - 1n });
    const { reason, message } = await rejection(bounded.agent.subscribe({ planId: hourly }));
    expect(reason).to.equal("limit");
    expect(message).to.include("24 periods in a day");
    expect(act(bounded.signed, "Subscribe")).to.equal(0);
    const { agent } = subject({ perSubscription: 24n * HALF });
    expect((await agent.subscribe({ planId: hourly })).status).to.equal("ACTIVE");
  });

  it("D20 the first charge has a cap of its own, below which a voucher brings it", async () => {
    const { agent, signed } = subject({ perFirstCharge: HALF });
    expect(await refusal(agent.subscribe({ planId }))).to.equal("first_charge");
    expect(await refusal(agent.subscribe({ planId, voucher: voucherOf(HALF + 1n, 0) }))).to.equal("first_charge");
    expect(act(signed, "Subscribe")).to.equal(0);
    await agent.subscribe({ planId, voucher: voucherOf(HALF, 0) });
    expect(await paid()).to.equal(HALF);
  });

  it("D20 a voucher's period that ends within the day counts the price after it", async () => {
    const trial = voucherOf(0n, DAY - 1);
    expect(await refusal(subject({ perFirstCharge: PRICE - 1n }).agent.subscribe({ planId, voucher: trial }))).to.equal(
      "first_charge",
    );
    const { agent } = subject({ perDay: PRICE, perSubscription: PRICE });
    await agent.subscribe({ planId, voucher: trial });
    expect(await refusal(agent.subscribe({ planId: await relay.createPlan(), voucher: trial }))).to.equal("per_day");
    const whole = subject({ perFirstCharge: 0n });
    expect((await whole.agent.subscribe({ planId, another: true, voucher: voucherOf(0n, DAY) })).status).to.equal(
      "ACTIVE",
    );
  });

  it("D20 a plan change is bounded at once and later: by its prorated charge, and by the new price with the cap", async () => {
    const dear = await relay.createPlan({ amount: PRICE + HALF });
    const { agent, signed } = subject({ perSubscription: PRICE + HALF, perFirstCharge: PRICE + 1_000n });
    const subscription = await agent.subscribe({ planId, maxOverage: 1n });
    for (const at of ["now", "periodEnd"] as const) {
      expect(await refusal(agent.changePlan(subscription, { planId: dear, at })), at).to.equal("limit");
    }
    await agent.setMaxOverage(subscription, 0n);
    const upTo = { planId: dear, maxCharge: PRICE + 1_001n };
    expect(await refusal(agent.changePlan(subscription, upTo))).to.equal("first_charge");
    expect(act(signed, "ChangePlan") + act(signed, "SetNext")).to.equal(0);
    await advance(INTERVAL_SEC / 2);
    await agent.changePlan(subscription, { planId: dear });
    const charge = (await paid()) - PRICE;
    expect(charge > PRICE - 10_000n && charge <= PRICE + 1_000n, `${charge}`).to.equal(true);
  });

  it("D20 a plan change that the wallet refuses to sign leaves the budget as it was", async () => {
    const key = walletFromKey(testKey("payer"));
    let refuses = false;
    const signTypedData: typeof key.signTypedData = (domain, types, message) =>
      refuses && "ChangePlan" in types ? Promise.reject(new Error("no")) : key.signTypedData(domain, types, message);
    const { agent } = agentFor(relay.url, {
      policy: { perPayment: PRICE, perDay: 1_000n * PRICE, tokens: [relay.addresses.token] },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
      wallet: { getAddress: key.getAddress, signTypedData },
    });
    const subscription = await agent.subscribe({ planId });
    const dearer = await relay.createPlan({ amount: 2n * PRICE });
    const { spent } = await agent.budget();
    refuses = true;
    await rejection(agent.changePlan(subscription, { planId: dearer }));
    expect((await agent.budget()).spent).to.equal(spent);
    refuses = false;
    expect((await agent.changePlan(subscription, { planId: dearer })).planId).to.equal(dearer);
    expect((await agent.budget()).spent > spent).to.equal(true);
  });

  it("D20 no credit left, and the same plan change is above the first charge's cap", async () => {
    const dear = await relay.createPlan({ amount: PRICE + HALF });
    const { agent, signed } = subject({ perFirstCharge: PRICE });
    const subscription = await agent.subscribe({ planId });
    await advance(INTERVAL_SEC - 3_600);
    expect(await refusal(agent.changePlan(subscription, { planId: dear }))).to.equal("first_charge");
    expect(act(signed, "ChangePlan")).to.equal(0);
  });

  it("D20 with a scheduled change, a raised cap counts on top of the dearer price, and so does a resumption", async () => {
    const dear = await relay.createPlan({ amount: PRICE + HALF });
    const { agent, signed } = subject({ perSubscription: PRICE + HALF });
    const subscription = await agent.subscribe({ planId });
    await agent.changePlan(subscription, { planId: dear, at: "periodEnd" });
    expect(await refusal(agent.setMaxOverage(subscription, 1n))).to.equal("limit");
    expect(act(signed, "SetMaxOverage")).to.equal(0);
    await agent.pause(subscription);
    await advance(INTERVAL_SEC + DAY);
    const strict = subject({ perSubscription: PRICE });
    const [found] = await strict.agent.recover({ planId });
    expect(await refusal(strict.agent.resume(found?.idHash as Hex))).to.equal("limit");
    expect(act(strict.signed, "Resume")).to.equal(0);
    expect((await agent.resume(subscription)).status).to.equal("ACTIVE");
    expect(await paid()).to.equal(PRICE + PRICE + HALF);
  });

  it("D20 what the Facilitator says of the cap lets no higher one be signed", async () => {
    let reported: string | undefined;
    const { agent, signed } = agentFor(relay.url, {
      policy: { perPayment: PRICE, perDay: 1_000n * PRICE, tokens: [relay.addresses.token], perSubscription: PRICE },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
      fetch: async (input, init) => {
        const response = await fetch(input, init);
        const body = (await response.json()) as { allowance?: object };
        if (!body.allowance || reported === undefined) return Response.json(body, { status: response.status });
        return Response.json({ ...body, allowance: { ...body.allowance, cap: reported } });
      },
    });
    const subscription = await agent.subscribe({ planId });
    reported = (2n * PRICE).toString();
    expect(await refusal(agent.setMaxOverage(subscription, PRICE))).to.equal("limit");
    expect(act(signed, "SetMaxOverage")).to.equal(0);
  });

  it("D20 the end that the policy requires can be moved, and not removed", async () => {
    const { agent } = subject({ requireUntil: true });
    const until = (await relay.nowSec()) + INTERVAL_SEC;
    const subscription = await agent.subscribe({ planId, until });
    expect(await refusal(agent.setUntil(subscription, undefined))).to.equal("until");
    expect((await agent.setUntil(subscription, until + DAY)).untilSec).to.equal(until + DAY);
  });

  it("shows what is charged at once, and for how long, to the one who is asked", async () => {
    const seen: SpendIntent[] = [];
    const ask = (intent: SpendIntent) => seen.push(intent) > 0;
    const { agent } = subject({ askAbove: 0n, ask });
    await agent.subscribe({ planId, maxOverage: 5n, voucher: voucherOf(HALF, 7 * DAY) });
    expect(seen).to.have.length(1);
    expect(seen[0]).to.include({ amount: PRICE + 5n, firstAmount: HALF, periodSec: INTERVAL_SEC });
  });
});
