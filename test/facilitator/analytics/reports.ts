import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import express from "express";
import { funnelSchema, type ReportWire } from "turnpike/facilitator";
import { createProvider, memoryClaims, type Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { type Address, encodePaymentProof, type PaymentRequiredWire } from "turnpike/protocol";
import { paymentToWire } from "../support/payments";
import { expectProblem } from "../support/problem";
import { type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const AMOUNT = 500_000n;
const HOUR_SEC = 3_600;

describe("Facilitator: what gates report", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  let service: Service;
  let readKey: string;
  let reportsKey: string;
  let nowSec: number;

  before(async () => {
    world = await startServiceWorld();
    service = await world.service({ RENEWALS: "false" });
    readKey = await service.apiKey({ scopes: ["read"] });
    reportsKey = await service.apiKey({ scopes: ["reports"] });
    nowSec = (await world.chain.provider.getBlock("latest"))?.timestamp ?? 0;
  });
  after(() => world.stop());

  const post = (body: unknown, key = reportsKey) =>
    fetch(`${service.url}/reports`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
  const get = (path: string, key = readKey) =>
    fetch(service.url + path, { headers: { authorization: `Bearer ${key}` } });
  const funnel = async (query = "", key = readKey) => {
    const response = await get(`/analytics/funnel${query}`, key);
    expect(response.status).to.equal(200);
    return funnelSchema.parse(await response.json());
  };
  let reports = 0;
  const report = (entry: object, more: object = {}): ReportWire => ({
    id: String(++reports).padStart(32, "0"),
    entries: [{ hour: nowSec - (nowSec % HOUR_SEC), resource: "/x", step: "asked", count: 1, amount: "0", ...entry }],
    ...more,
  });

  describe("by a real gate, over HTTP", () => {
    let provider: Provider;
    let server: Server;
    let url: string;

    before(async () => {
      const { contracts, chain } = world;
      const { proofSigners } = await service.client.supported();
      provider = createProvider({
        network: `local-${chain.chainId}`,
        token: { address: contracts.token, name: contracts.tokenName, version: contracts.tokenVersion },
        payTo: world.provider.address,
        facilitator: { url: service.url, signers: proofSigners },
        secret: "a secret of this test, long enough to be one",
        claims: memoryClaims({ warn: false }),
        clock: { nowSec: () => nowSec },
        reports: { apiKey: reportsKey },
        // A replay would answer what is presented again: here it is refused.
        replay: false,
      });
      const app = express();
      const gate = provider.gate({ pricing: [{ type: "one-time", amount: AMOUNT }] });
      app.get("/quotes/:symbol", expressGate(gate), (_request, response) => void response.json({ ok: true }));
      server = createServer(app);
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    });
    after(async () => {
      await provider.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });

    const pay = async (path: string): Promise<Response> => (await paid(path)).response;

    async function paid(path: string): Promise<{ response: Response; proof: string }> {
      const required = (await (await fetch(url + path)).json()) as PaymentRequiredWire;
      const [entry] = required.accepts;
      const { memo = "", resource = "" } = entry ?? {};
      const [ref = ""] = memo.split(".");
      const payTo = world.provider.address as Address;
      const signed = paymentToWire(await world.signPayment({ payTo, amount: AMOUNT, resource, ref }));
      const outcome = await service.client.authorize({ ...signed, memo });
      if (outcome.kind !== "settled") throw new TypeError(`the payment is ${outcome.kind}`);
      const proof = encodePaymentProof(outcome.proof);
      return { response: await fetch(url + path, { headers: { "X-PAYMENT": proof } }), proof };
    }

    it("shows from the first 402 to the answer what was asked, paid, served, and lost by cause", async () => {
      expect((await pay("/quotes/ABC?q=1")).status).to.equal(200);
      for (let time = 0; time < 3; time++) expect((await fetch(`${url}/quotes/DEF`)).status).to.equal(402);
      const bad = await fetch(`${url}/quotes/GHI`, { headers: { "X-PAYMENT": "nonsense" } });
      expect(bad.status).to.equal(402);
      await provider.flush();

      const found = await funnel();
      expect(found.steps).to.deep.equal([
        { step: "asked", count: 5, amount: 5n * AMOUNT },
        { step: "signed", count: 1, amount: AMOUNT },
        { step: "settled", count: 1, amount: AMOUNT },
        { step: "paid", count: 1, amount: AMOUNT },
        { step: "served", count: 1, amount: AMOUNT },
      ]);
      expect(found.causes).to.deep.equal([
        {
          cause: "PaymentRequired",
          offer: "one-time",
          count: 4,
          asked: 4n * AMOUNT,
          answered: AMOUNT,
          lost: 3n * AMOUNT,
        },
        {
          cause: "InvalidPaymentProof/malformed",
          offer: "one-time",
          count: 1,
          asked: AMOUNT,
          answered: 0n,
          lost: AMOUNT,
        },
      ]);
      expect(found.lost).to.equal(4n * AMOUNT);
      expect(found.answeredBy).to.deep.equal({ "one-time": AMOUNT, subscription: 0n });
      expect(found.received).to.deep.equal({ "one-time": AMOUNT, subscription: 0n });
      expect(found.resources.find(({ resource }) => resource === "/quotes/:symbol")).to.deep.equal({
        resource: "/quotes/:symbol",
        asked: { count: 5, amount: 5n * AMOUNT },
        answered: AMOUNT,
        bySubscription: { count: 0 },
        paid: { count: 1, amount: AMOUNT },
        served: { count: 1, amount: AMOUNT },
        lost: 4n * AMOUNT,
      });
      const one = await funnel(`?resource=${encodeURIComponent("/quotes/:symbol")}`);
      expect(one.lost).to.equal(4n * AMOUNT);
      const csv = await (await get("/analytics/funnel.csv")).text();
      expect(csv.split("\r\n")[0]).to.equal(
        "cause,offer,count,asked,askedDecimal,answered,answeredDecimal,lost,lostDecimal,token,decimals",
      );
      expect(csv).to.include(
        `PaymentRequired,one-time,4,2000000,2.000000,500000,0.500000,1500000,1.500000,${world.contracts.token},6`,
      );
    });

    it("HC23 counts a payment that is presented again as turned away, and never as lost", async () => {
      const before = await funnel();
      const { proof } = await paid("/quotes/JKL");
      const again = await fetch(`${url}/quotes/JKL`, { headers: { "X-PAYMENT": proof } });
      expect(again.status).to.equal(402);
      const elsewhere = await fetch(`${url}/quotes/MNO`, { headers: { "X-PAYMENT": proof } });
      expect(elsewhere.status).to.equal(402);
      await provider.flush();
      const found = await funnel();
      expect(found.lost).to.equal(before.lost);
      expect(found.turnedAway.map(({ cause, count }) => `${cause} ${count}`)).to.include.members([
        "PaymentAlreadyUsed/already_used 1",
        "InvalidPaymentProof/resource 1",
      ]);
    });
  });

  it("counts a report once, and refuses another under the same id", async () => {
    const before = (await funnel()).turnedAway.find(({ cause }) => cause === "Once")?.count ?? 0;
    const sent = report({ step: "turned_away", cause: "Once", count: 7 });
    expect(await (await post(sent)).json()).to.deep.equal({ status: "counted" });
    expect(await (await post(sent)).json()).to.deep.equal({ status: "repeated" });
    expect((await funnel()).turnedAway.find(({ cause }) => cause === "Once")?.count).to.equal(before + 7);
    const other = { ...sent, entries: [{ ...sent.entries[0], count: 8 }] };
    await expectProblem(await post(other), 409, "PayloadConflict");
  });

  it("counts reports that come in at once, each once", async () => {
    const sent = Array.from({ length: 12 }, (_, index) =>
      report({ step: "turned_away", cause: "AtOnce", resource: `/r${index % 3}` }),
    );
    const answers = await Promise.all([...sent, ...sent].map((each) => post(each)));
    expect(answers.every(({ status }) => status === 200)).to.equal(true);
    expect((await funnel()).turnedAway.find(({ cause }) => cause === "AtOnce")?.count).to.equal(12);
  });

  it("B22 shows a provider's funnel to nobody else, and takes no report without the scope", async () => {
    const stranger = await world.payer(0n);
    const key = await service.apiKey({ wallet: stranger, scopes: ["read"] });
    const theirs = await funnel("", key);
    expect(theirs.lost).to.equal(0n);
    expect(theirs.turnedAway).to.deep.equal([]);
    expect(theirs.resources).to.deep.equal([]);
    await expectProblem(await post(report({}), readKey), 403, "ScopeMissing");
    await expectProblem(await get("/analytics/funnel", reportsKey), 403, "ScopeMissing");
    await expectProblem(
      await fetch(`${service.url}/reports`, { method: "POST", body: "{}" }),
      415,
      "UnsupportedMediaType",
    );
    await expectProblem(await post(report({}), "nobody"), 401, "InvalidApiKey");
  });

  it("S11 answers what is malformed with a 4xx that names the field", async () => {
    const entry = report({}).entries[0];
    const cases: [object | string, string][] = [
      ["{", "body"],
      [{ id: "1", entries: [entry] }, "id"],
      [report({}, { entries: [] }), "entries"],
      [report({}, { entries: Array.from({ length: 201 }, () => entry) }), "entries"],
      [report({ resource: "/a?secret=1" }), "resource"],
      [report({ resource: `/${"a".repeat(128)}` }), "resource"],
      [report({ step: "stolen" }), "step"],
      [report({ cause: "a b" }), "cause"],
      [report({ count: 0 }), "count"],
      [report({ count: 1.5 }), "count"],
      [report({ amount: "-1" }), "amount"],
      [report({ amount: (1n << 160n).toString() }), "amount"],
      [report({ hour: 1 }), "hour"],
      [report({ hour: nowSec - (nowSec % HOUR_SEC) - 26 * HOUR_SEC }), "hour"],
      [report({ hour: nowSec - (nowSec % HOUR_SEC) + 48 * HOUR_SEC }), "hour"],
      [report({ token: `0x${"11".repeat(20)}` }), "token"],
    ];
    for (const [body, field] of cases) {
      const problem = await expectProblem(await post(body), 400, "InvalidRequest");
      expect(JSON.stringify(problem), JSON.stringify(body).slice(0, 80)).to.include(field);
    }
    await expectProblem(await post(report({ cause: "x".repeat(70_000) })), 413, "PayloadTooLarge");
  });

  it("keeps so many routes of a provider apart, and counts the others together", async () => {
    const wallet = await world.payer(0n);
    const key = await service.apiKey({ wallet, scopes: ["reports", "read"] });
    for (let batch = 0; batch < 2; batch++) {
      const entries = Array.from({ length: 150 }, (_, index) => ({
        ...report({}).entries[0],
        resource: `/r/${batch}/${index}`,
        token: world.contracts.token,
        amount: "1",
      }));
      expect((await post(report({}, { entries }), key)).status).to.equal(200);
    }
    const found = await funnel("", key);
    expect(found.steps[0]).to.deep.equal({ step: "asked", count: 300, amount: 300n });
    // Every route that is counted apart, and the others together: the rows contain all of it.
    expect(found.resources).to.have.length(201);
    expect(found.resources.reduce((sum, { lost }) => sum + lost, 0n)).to.equal(found.lost);
    expect(found.resources[0]).to.deep.include({ resource: "*", asked: { count: 100, amount: 100n } });
  });
});
