import { createServer } from "node:http";
import { expect } from "chai";
import express from "express";
import { deductAllowance, paymentGate } from "turnpike";
import { createTestProvider } from "turnpike/testing";
import { closeServer, listen, send } from "../../../support/gate";

const PLAN = `0x${"5a".repeat(32)}`;

// An application as a user of this package would write and test it.
describe("turnpike/testing", () => {
  const test = createTestProvider();
  const app = express();
  const server = createServer(app);
  let url: string;

  before(async () => {
    await test.install();
    const pricing = [
      { type: "one-time", amount: 500_000 },
      { type: "subscription", plan: PLAN },
    ] as const;
    app.get(
      "/joke",
      paymentGate({ pricing }),
      (request, response) => void response.json({ paid: request.payment?.kind }),
    );
    app.get("/tokens", paymentGate({ pricing, metered: true }), async (_request, response) => {
      response.json({ charged: String((await deductAllowance(400_000)).charged) });
    });
    url = await listen(server);
  });
  after(() => closeServer(server));

  it("refuses a charge below the least that a Facilitator settles by default, and takes one of 0", async () => {
    app.get("/used", paymentGate({ pricing: [{ type: "upto", max: "$0.50" }] }), ({ payment, query }, response) => {
      if (payment && "charge" in payment) payment.charge(BigInt(String(query.units)));
      response.json({});
    });
    const statuses = [];
    for (const units of [1, 99, 100, 0]) {
      const refused = await fetch(`${url}/used?units=${units}`);
      const headers = test.payUpto(refused.headers.get("PAYMENT-REQUIRED") ?? "");
      statuses.push((await fetch(`${url}/used?units=${units}`, { headers })).status);
    }
    expect(statuses).to.deep.equal([500, 500, 200, 200]);
  });

  it("lets an application's tests pay, without a chain", async () => {
    const required = await send(`${url}/joke`);
    expect(required.status).to.equal(402);
    const headers = test.pay(required.json);
    expect((await send(`${url}/joke`, { headers })).json).to.deep.equal({ paid: "one-time" });
    const again = await send(`${url}/joke`, { headers });
    expect([again.status, again.headers["idempotency-replayed"]], "its answer once more").to.deep.equal([200, "true"]);
  });

  it("lets them subscribe, lapse, and run out", async () => {
    const { id, headers } = test.subscribe({ planId: PLAN, maxOverage: 500_000n });
    expect((await send(`${url}/joke`, { headers })).json).to.deep.equal({ paid: "subscription" });
    expect((await send(`${url}/tokens`, { headers })).json).to.deep.equal({ charged: "400000" });
    expect((await send(`${url}/tokens`, { headers })).json).to.deep.equal({ charged: "100000" });
    expect((await send(`${url}/tokens`, { headers })).json.error).to.equal("AllowanceExhausted");
    expect(test.spentOf(id)).to.equal(500_000n);
    test.change(id, { cap: 600_000n, blocked: true });
    expect((await send(`${url}/tokens`, { headers })).json.error).to.equal("InsufficientFunds");
    test.change(id, { paused: true });
    expect((await send(`${url}/joke`, { headers })).json.reason).to.equal("paused");
    test.change(id, { paused: false });
    test.clock.advance(31 * 86_400);
    expect((await send(`${url}/joke`, { headers })).json.reason).to.equal("past_due");
  });

  it("lets them see what an outage does", async () => {
    const { headers } = test.subscribe({ planId: PLAN });
    test.setDown(true);
    expect((await send(`${url}/joke`, { headers })).status).to.equal(503);
    expect((await send(`${url}/joke`)).status).to.equal(402);
    test.setDown(false);
    expect((await send(`${url}/joke`, { headers })).status).to.equal(200);
  });
});
