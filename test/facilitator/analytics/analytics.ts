import { expect } from "chai";
import {
  latencySchema,
  overviewSchema,
  paymentListSchema,
  planFiguresSchema,
  subscriberListSchema,
  volumeSchema,
} from "turnpike/facilitator";
import type { Address, Hex } from "turnpike/protocol";
import { until } from "../../support/facilitator";
import { paymentToWire } from "../support/payments";
import { expectProblem } from "../support/problem";
import { DAY_SEC, PRICE, type Service, type ServiceWorld, startServiceWorld } from "../support/service";

describe("Facilitator: analytics", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  let service: Service;
  let key: string;
  let provider: Address;
  let idHash: Hex;

  before(async () => {
    world = await startServiceWorld();
    service = await world.service({ RENEWALS: "false" });
    provider = world.provider.address as Address;
    key = await service.apiKey({ scopes: ["read"] });
    const subscriber = await world.payer(10n * PRICE);
    const signup = await world.signup(subscriber, { maxOverage: PRICE, permit: 5n * PRICE });
    idHash = signup.idHash;
    expect((await service.client.subscribe(signup.request)).kind).to.equal("done");
    for (const amount of [250_000n, 500_000n]) {
      const signed = paymentToWire(await world.signPayment({ payTo: provider, amount }));
      expect((await service.client.authorize(signed)).kind).to.equal("settled");
    }
  });
  after(() => world.stop());

  const get = (path: string, bearer = key) =>
    fetch(service.url + path, { headers: { authorization: `Bearer ${bearer}` } });
  const json = async (path: string): Promise<unknown> => {
    const response = await get(path);
    expect(response.status, path).to.equal(200);
    return response.json();
  };

  it("returns volume by form of payment, recurring revenue and subscribers", async () => {
    const overview = overviewSchema.parse(await json("/analytics/overview"));
    expect(overview.volume).to.deep.equal({ count: 3, amount: PRICE + 750_000n });
    expect(overview.volumeBefore).to.deep.equal({ count: 0, amount: 0n });
    expect(overview.byScheme["one-time"]).to.deep.equal({ count: 2, amount: 750_000n });
    expect(overview.byScheme.signup).to.deep.equal({ count: 1, amount: PRICE });
    // A price every 30 days recurs once in 30 days.
    expect(overview.subscriptions).to.include({ active: 1, recurring: PRICE, created: 1 });
    expect(overview.payments).to.deep.equal({ settled: 2, failed: 0, reversed: 0 });

    const plans = planFiguresSchema.parse(await json("/analytics/plans"));
    expect(plans.plans.map(({ planId, active, amount }) => ({ planId, active, amount }))).to.deep.equal([
      { planId: world.planId, active: 1, amount: PRICE },
    ]);
  });

  it("puts each payment into the hour and the day of its block", async () => {
    for (const [grain, size] of [
      ["hour", 3_600],
      ["day", DAY_SEC],
    ] as const) {
      const { points } = volumeSchema.parse(await json(`/analytics/volume?grain=${grain}&days=2`));
      expect(points.reduce((sum, { amount }) => sum + amount, 0n)).to.equal(PRICE + 750_000n);
      for (const { at } of points) expect(at % size).to.equal(0);
    }
  });

  it("lists payments and subscriptions newest first, a page at a time", async () => {
    const first = paymentListSchema.parse(await json("/analytics/payments?limit=1"));
    expect(first.payments.map(({ amount, status }) => ({ amount, status }))).to.deep.equal([
      { amount: 500_000n, status: "settled" },
    ]);
    const second = paymentListSchema.parse(await json(`/analytics/payments?limit=1&cursor=${first.next}`));
    expect(second.payments.map(({ amount }) => amount)).to.deep.equal([250_000n]);
    const failed = paymentListSchema.parse(await json("/analytics/payments?status=failed"));
    expect(failed).to.deep.equal({ payments: [] });
    const { subscriptions } = subscriberListSchema.parse(await json("/analytics/subscriptions"));
    expect(subscriptions.map(({ idHash: id, status }) => ({ id, status }))).to.deep.equal([
      { id: idHash, status: "ACTIVE" },
    ]);
    await expectProblem(await get("/analytics/payments?cursor=1"), 400, "InvalidRequest");
  });

  it("B22 shows nothing of it to another provider, and nothing at all without a key", async () => {
    const other = await service.apiKey({ wallet: await world.payer(0n), scopes: ["read"] });
    const overview = overviewSchema.parse(await (await get("/analytics/overview", other)).json());
    expect(overview.volume).to.deep.equal({ count: 0, amount: 0n });
    expect(overview.subscriptions.active).to.equal(0);
    const lists = ["/analytics/payments", "/analytics/subscriptions", "/analytics/plans", "/analytics/payers"];
    for (const path of lists) {
      const body = (await (await get(path, other)).json()) as Record<string, unknown[]>;
      expect(Object.values(body).filter(Array.isArray), path).to.deep.equal([[]]);
    }
    const csv = await (await get("/analytics/payments.csv", other)).text();
    expect(csv.trim().split("\r\n")).to.have.length(1);
    for (const path of [...lists, "/analytics/overview", "/analytics/volume.csv", "/events/live"]) {
      await expectProblem(await fetch(service.url + path), 401, "InvalidApiKey");
    }
    const debitsOnly = await service.apiKey({ scopes: ["debits"] });
    await expectProblem(await get("/analytics/overview", debitsOnly), 403, "ScopeMissing");
  });

  it("writes CSV that a spreadsheet does not run", async () => {
    const plan = await world.plan({ metadata: `=HYPERLINK("http://evil","x")` });
    await until(async () => {
      const { plans } = planFiguresSchema.parse(await json("/analytics/plans"));
      return plans.some(({ planId }) => planId === plan);
    }, "the plan is indexed");
    const response = await get("/analytics/plans.csv");
    expect(response.headers.get("content-type")).to.match(/^text\/csv/);
    expect(response.headers.get("content-disposition")).to.equal('attachment; filename="turnpike-plans.csv"');
    const lines = (await response.text()).split("\r\n");
    expect(lines[0]).to.equal(
      "planId,metadata,price,priceDecimal,interval,active,recurring,recurringDecimal,count,amount,amountDecimal,periodUnit,periodCount,payTo,proposedPayTo,proposedFrom,deprecated,refundCount,refunds,refundsDecimal,net,netDecimal,transferredTo,stopped,token,decimals",
    );
    expect(lines.find((line) => line.includes(plan))).to.include(`,"'=HYPERLINK(""http://evil"",""x"")",`);
  });

  it("T12 shows a proposed payee and from when on it is paid, on the overview and in the CSV of plans in months", async () => {
    const planId = await world.plan({ period: { unit: "month", count: 3 } });
    const payTo = (await world.payer(0n)).address;
    await world.act(world.provider, "proposePayTo", [planId, payTo]);
    const [proposal] = await until(async () => {
      const { payeeProposals } = overviewSchema.parse(await json("/analytics/overview"));
      return payeeProposals.length > 0 && payeeProposals;
    }, "the proposal is shown");
    expect(proposal).to.include({ planId, payTo });
    const from = new Date((proposal?.effectiveAt ?? 0) * 1_000).toISOString();
    expect(Date.parse(from) / 1_000 - (await world.nowSec())).to.be.within(7 * DAY_SEC - 60, 7 * DAY_SEC);
    const lines = (await (await get("/analytics/plans.csv")).text()).split("\r\n");
    const line = lines.find((each) => each.startsWith(planId));
    expect(line).to.include(`,month,3,${world.payee},${payTo},${from},false,`);
    await world.act(world.provider, "withdrawPayTo", [planId]);
    await until(
      async () => overviewSchema.parse(await json("/analytics/overview")).payeeProposals.length === 0,
      "it is shown no more",
    );
  });

  it("shows which plans are stopped, as JSON and in the CSV", async () => {
    const planId = await world.plan();
    await world.act(world.provider, "stopPlan", [planId]);
    const plans = await until(async () => {
      const { plans: all } = planFiguresSchema.parse(await json("/analytics/plans"));
      return all.some((plan) => plan.planId === planId && plan.stopped) && all;
    }, "the stop is shown");
    expect(plans.filter(({ stopped }) => stopped)).to.have.lengthOf(1);
    const [header = "", ...lines] = (await (await get("/analytics/plans.csv")).text()).split("\r\n");
    const place = header.split(",").indexOf("stopped") - header.split(",").length;
    const cells = lines.filter(Boolean).map((line) => [line.split(",")[0], line.split(",").at(place)]);
    expect(cells.filter(([, stopped]) => stopped === "true")).to.deep.equal([[planId, "true"]]);
  });

  it("counts a trial that converts, and lists its end and its next plan", async () => {
    const nextPlanId = await world.plan({ amount: 2n * PRICE });
    await until(async () => (await service.client.plan(nextPlanId)).kind === "found", "the plan is known");
    const payer = await world.payer(10n * PRICE);
    const end = (await world.nowSec()) + 90 * DAY_SEC;
    const trial = await world.signup(payer, {
      voucher: { firstAmount: 0n, firstInterval: 3_600 },
      until: end,
      permit: 10n * PRICE,
    });
    await service.client.subscribe(trial.request);
    const request = await world.change("next", payer, { idHash: trial.idHash, until: end, nextPlanId });
    await service.client.change({ idHash: trial.idHash, act: "next", request });
    const trials = async () => overviewSchema.parse(await json("/analytics/overview")).subscriptions.trials;
    await until(async () => (await trials()).begun === 1, "the trial is counted");
    expect(await trials()).to.deep.equal({ begun: 1, converted: 0 });
    const lines = (await (await get("/analytics/subscriptions.csv")).text()).split("\r\n");
    const endText = new Date(end * 1_000).toISOString();
    expect(lines[0]).to.match(/,ending,until,nextPlanId,intro,token,decimals$/);
    expect(lines.find((line) => line.startsWith(trial.idHash))).to.include(`,false,${endText},${nextPlanId},true,`);
    await world.chain.advance(3_600);
    await world.act(world.provider, "renew", [trial.idHash]);
    await until(async () => (await trials()).converted === 1, "its conversion is counted");
    const renewed = await json(`/events?subject=${trial.idHash}`);
    expect(JSON.stringify(renewed)).to.include('"converted":true');
  });

  it("returns settlement times as CSV too", async () => {
    const lines = (await (await get("/analytics/latency.csv")).text()).trim().split("\r\n");
    expect(lines[0]).to.equal("upToMs,count");
    const counts = lines.slice(1).map((line) => Number(line.split(",")[1]));
    const { sampled } = latencySchema.parse(await json("/analytics/latency"));
    expect(sampled).to.be.greaterThan(1);
    expect(counts.reduce((sum, count) => sum + count, 0)).to.equal(sampled);
  });

  it("names the field of a range that makes no sense", async () => {
    for (const [query, field] of [
      ["from=20&to=10", "from"],
      ["from=-1", "from"],
      ["days=0", "days"],
      ["token=0x12", "token"],
      ["tokn=0x12", "tokn: is no parameter here"],
    ]) {
      const problem = await expectProblem(await get(`/analytics/overview?${query}`), 400, "InvalidRequest");
      expect(JSON.stringify(problem), query).to.include(field);
    }
    const hours = await expectProblem(await get("/analytics/volume?grain=hour&days=365"), 400, "InvalidRequest");
    expect(hours.details).to.deep.equal({ field: "days", in: "query" });
  });

  it("notifies listeners of events", async () => {
    const stop = new AbortController();
    const response = await fetch(`${service.url}/events/live`, {
      headers: { authorization: `Bearer ${key}` },
      signal: stop.signal,
    });
    expect(response.headers.get("content-type")).to.match(/^text\/event-stream/);
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    const signed = paymentToWire(await world.signPayment({ payTo: provider }));
    await service.client.authorize(signed);
    let seen = "";
    while (!seen.includes("payment.settled")) {
      const { value, done } = (await reader?.read()) ?? { done: true };
      expect(done).to.equal(false);
      seen += value;
    }
    expect(seen).to.match(/event: happened\ndata: \{"type":"payment.settled","subject":"0x[0-9a-f]{64}"\}/);
    stop.abort();
  });
});
