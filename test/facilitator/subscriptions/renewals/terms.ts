import { expect } from "chai";
import { Wallet } from "ethers";
import type { FacilitatorEvent } from "turnpike/facilitator";
import { type Address, type Hex, NOMINAL_MONTH_SEC } from "turnpike/protocol";
import { signupArgs } from "../../../support/acts";
import { type Payer, until } from "../../../support/facilitator";
import {
  DAY_SEC,
  GRACE_SEC,
  INTERVAL_SEC,
  PRICE,
  type Service,
  type ServiceWorld,
  type SignupFields,
  startServiceWorld,
} from "../../support/service";

const FUNDS = 1_000_000_000n;

describe("Facilitator: renewals of months, ends, introductions and scheduled changes", function () {
  this.timeout(240_000);
  let world: ServiceWorld;
  let service: Service;

  before(async () => {
    world = await startServiceWorld();
    service = await world.service();
  });
  after(() => world.stop());

  interface Subscriber extends Payer {
    readonly idHash: Hex;
    readonly paidThrough: number;
  }
  async function subscriber(fields: SignupFields & { funds?: bigint } = {}): Promise<Subscriber> {
    const { funds = FUNDS, ...signup } = fields;
    const payer = await world.payer(funds);
    const { idHash, request } = await world.signup(payer, { permit: FUNDS, ...signup });
    const outcome = await service.client.subscribe(request);
    if (outcome.kind !== "done") throw new Error(JSON.stringify(outcome));
    return { ...payer, idHash, paidThrough: outcome.change.paidThrough };
  }
  async function known(planId: Hex): Promise<Hex> {
    await until(async () => (await service.client.plan(planId)).kind === "found", "the plan is known");
    return planId;
  }
  const record = async (idHash: Hex) => {
    const found = await service.client.subscription(idHash);
    if (found.kind !== "found") throw found.error;
    return found.value;
  };
  const paidUntil = (idHash: Hex, paidThrough: number) =>
    until(
      async () => {
        const found = await record(idHash);
        return found.paidThrough === paidThrough && found;
      },
      `paid through ${new Date(paidThrough * 1_000).toISOString()}`,
    );
  const events = async (subject: Hex, type: string): Promise<readonly FacilitatorEvent[]> => {
    const all: FacilitatorEvent[] = [];
    for (let cursor: string | undefined; ; ) {
      const found = await service.client.events({ limit: 200, ...(cursor !== undefined && { cursor }) });
      if (found.kind !== "found") throw found.error;
      all.push(...found.value.events);
      if (found.value.events.length < 200) {
        return all.filter((event) => event.subject === subject && event.type === type);
      }
      cursor = found.value.next;
    }
  };
  const advanceTo = async (timeSec: number) => world.chain.advance(timeSec - (await world.nowSec()));
  async function schedule(payer: Subscriber, fields: { until?: number; nextPlanId?: Hex; version?: number }) {
    const { version = 0, until: end = 0, nextPlanId = `0x${"0".repeat(64)}` as Hex } = fields;
    const { idHash } = payer;
    const request = await world.change("next", payer, { idHash, version, until: end, nextPlanId });
    const outcome = await service.client.change({ idHash, act: "next", request });
    if (outcome.kind !== "done") throw new Error(JSON.stringify(outcome));
    return outcome.change;
  }

  it("L25 renews a plan in months at the month's last day, and returns to the 31st", async () => {
    const planId = await known(await world.plan({ period: { unit: "month", count: 1 } }));
    const year = new Date((await world.nowSec()) * 1_000).getUTCFullYear() + 1;
    await advanceTo(Date.UTC(year, 0, 31, 12) / 1_000);
    const { idHash, paidThrough } = await subscriber({ planId });
    const dayOf = (timeSec: number) => new Date(timeSec * 1_000).toISOString().slice(5, 10);
    const february = dayOf(Date.UTC(year, 2, 0) / 1_000);
    expect(dayOf(paidThrough)).to.equal(february);
    expect((await record(idHash)).anchorDay).to.equal(31);
    const received = await world.balanceOf(world.payee);
    await advanceTo(paidThrough);
    await paidUntil(idHash, paidThrough + (Date.UTC(year, 2, 31) - Date.UTC(year, 2, 0)) / 1_000);
    expect(await world.balanceOf(world.payee)).to.equal(received + PRICE);
    const plan = await service.client.plan(planId);
    expect(plan.kind === "found" && plan.value).to.deep.include({
      period: { unit: "month", count: 1 },
      interval: NOMINAL_MONTH_SEC,
    });
  });

  it("L27 collects nothing from the subscriber's end on, and says so once when the period ends", async () => {
    const end = (await world.nowSec()) + INTERVAL_SEC - DAY_SEC;
    const bounded = await subscriber({ until: end });
    const live = await subscriber();
    expect(await record(bounded.idHash)).to.include({ until: end, version: 0, status: "ACTIVE" });
    await advanceTo(live.paidThrough);
    await paidUntil(live.idHash, live.paidThrough + INTERVAL_SEC);
    const [ended, ...more] = await until(async () => {
      const found = await events(bounded.idHash, "subscription.cancelled");
      return found.length > 0 && found;
    }, "the end is reported");
    expect(more).to.deep.equal([]);
    expect(ended?.data).to.include({ atPeriodEnd: true, status: "CANCELLED", until: end });
    expect(await world.balanceOf(bounded.address)).to.equal(FUNDS - PRICE);
    expect(await events(bounded.idHash, "subscription.renewal_failed")).to.deep.equal([]);
    expect(await record(bounded.idHash)).to.include({ status: "CANCELLED", paidThrough: bounded.paidThrough });
  });

  it("L27 stops trying at an end within grace, and calls nothing past due afterwards", async () => {
    const poor = await subscriber({ funds: PRICE });
    await schedule(poor, { until: poor.paidThrough + DAY_SEC });
    await advanceTo(poor.paidThrough);
    await until(async () => (await events(poor.idHash, "subscription.renewal_failed")).length > 0, "it fails");
    await advanceTo(poor.paidThrough + DAY_SEC);
    await until(async () => (await events(poor.idHash, "subscription.cancelled")).length === 1, "it has ended");
    await world.contracts.mint(poor.address, FUNDS);
    const live = await subscriber();
    await advanceTo(poor.paidThrough + GRACE_SEC + INTERVAL_SEC + DAY_SEC);
    await until(async () => (await record(live.idHash)).paidThrough > live.paidThrough, "others are collected");
    expect(await events(poor.idHash, "subscription.past_due")).to.deep.equal([]);
    expect(await events(poor.idHash, "subscription.expired")).to.deep.equal([]);
    expect(await world.balanceOf(poor.address)).to.equal(FUNDS);
  });

  it("L27 reports the end of what was paused or had expired before it, once and at its own time", async () => {
    const paused = await subscriber();
    const expired = await subscriber({ funds: PRICE });
    const end = expired.paidThrough + INTERVAL_SEC + DAY_SEC;
    await schedule(paused, { until: paused.paidThrough - DAY_SEC });
    await schedule(expired, { until: end });
    const request = await world.change("pause", paused, { idHash: paused.idHash, version: 1 });
    await service.client.change({ idHash: paused.idHash, act: "pause", request });
    await advanceTo(expired.paidThrough + INTERVAL_SEC);
    await until(async () => (await events(expired.idHash, "subscription.expired")).length === 1, "it expires");
    expect(await events(expired.idHash, "subscription.cancelled")).to.deep.equal([]);
    await advanceTo(end + DAY_SEC);
    await until(async () => (await events(expired.idHash, "subscription.cancelled")).length > 0, "its end is reported");
    const [late, ...others] = await events(expired.idHash, "subscription.cancelled");
    expect(late).to.include({ occurredAt: end });
    expect(late?.data).to.include({ atPeriodEnd: true, status: "CANCELLED", until: end });
    const [early, ...more] = await events(paused.idHash, "subscription.cancelled");
    expect(early).to.include({ occurredAt: paused.paidThrough });
    expect([...others, ...more]).to.deep.equal([]);
  });

  it("L28 charges a scheduled plan's price at the renewal, and warns of that price", async () => {
    const planId = await known(await world.plan({ amount: 3n * PRICE }));
    const payer = await subscriber({ funds: 3n * PRICE });
    const set = await schedule(payer, { nextPlanId: planId });
    expect(set.version).to.equal(1);
    expect(await record(payer.idHash)).to.include({ planId: world.planId, nextPlanId: planId });
    const [planned] = await events(payer.idHash, "subscription.next_set");
    expect(planned?.data).to.include({ nextPlanId: planId, until: null, price: String(PRICE) });
    await advanceTo(payer.paidThrough - DAY_SEC / 2);
    const [warning] = await until(async () => {
      const found = await events(payer.idHash, "subscription.renewal_at_risk");
      return found.length > 0 && found;
    }, "the warning");
    expect(warning?.data).to.include({ charge: String(3n * PRICE), required: String(3n * PRICE) });
    expect(warning?.data).to.include({ missingFunds: String(PRICE) });
    await advanceTo(payer.paidThrough);
    const [failed] = await until(async () => {
      const found = await events(payer.idHash, "subscription.renewal_failed");
      return found.length > 0 && found;
    }, "the renewal fails for the new price");
    expect(failed?.data).to.include({ charge: String(3n * PRICE), price: String(PRICE) });
    await world.contracts.mint(payer.address, PRICE);
    await world.chain.advance(3_700);
    const changed = await paidUntil(payer.idHash, payer.paidThrough + INTERVAL_SEC);
    expect([changed.planId, changed.version, changed.nextPlanId]).to.deep.equal([planId, 1, undefined]);
    const [renewed] = await events(payer.idHash, "subscription.renewed");
    expect(renewed?.data).to.include({ charged: String(3n * PRICE), planId, nextPlanId: null });
    expect(await world.balanceOf(payer.address)).to.equal(0n);
  });

  it("B13 warns a payer also where another renewal is in an unlisted token that does not answer", async () => {
    const broken = Wallet.createRandom().address as Address;
    await world.chain.provider.send("hardhat_setCode", [broken, "0x00"]);
    const planId = await world.plan({ token: broken });
    const payer = await subscriber({ funds: PRICE });
    const voucher = { firstAmount: 0n, firstInterval: 7 * DAY_SEC };
    const { request } = await world.signup(payer, { planId, voucher });
    await world.act(world.provider, "subscribe", signupArgs(payer.address, request, request));
    await advanceTo(payer.paidThrough - DAY_SEC / 2);
    const [warning] = await until(async () => {
      const found = await events(payer.idHash, "subscription.renewal_at_risk");
      return found.length > 0 && found;
    }, "the warning");
    expect(warning?.data).to.include({ renewals: 1, missingFunds: String(PRICE) });
  });

  it("L29 a free trial by voucher needs no approval, and becomes a paid period at the price", async () => {
    const payer = await world.payer(FUNDS);
    const voucher = { firstAmount: 0n, firstInterval: 7 * DAY_SEC };
    const { idHash, request } = await world.signup(payer, { voucher });
    const outcome = await service.client.subscribe(request);
    if (outcome.kind !== "done") throw new Error(JSON.stringify(outcome));
    const { paidThrough } = outcome.change;
    expect(paidThrough - (await record(idHash)).chainTimeSec).to.be.within(7 * DAY_SEC - 600, 7 * DAY_SEC);
    expect(await record(idHash)).to.include({ intro: true, status: "ACTIVE", version: 0 });
    const [created] = await events(idHash, "subscription.created");
    expect(created?.data).to.include({ charged: "0", price: String(PRICE) });
    const permit = await world.permit(payer, FUNDS);
    await service.client.permit({ token: world.contracts.token, owner: payer.address, ...permit });
    await advanceTo(paidThrough);
    expect(await paidUntil(idHash, paidThrough + INTERVAL_SEC)).to.include({ intro: false });
    expect(await world.balanceOf(payer.address)).to.equal(FUNDS - PRICE);
  });
});
