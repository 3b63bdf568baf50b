import { createServer } from "node:http";
import { expect } from "chai";
import express from "express";
import type { Payment, Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import type { Hex } from "turnpike/protocol";
import { closeServer, listen, type SmallFacilitator, testProvider } from "../../support/gate";
import { startRpc } from "../agent/support/hardhat-rpc";
import { PRICE, type Relay, startRelay } from "../agent/support/relay";
import { closeAll, type StandIn, serve } from "../agent/support/servers";
import { addressOf, CHAIN_ID, NETWORK } from "../agent/support/world";
import { Desk, type Host } from "./support/host";

describe("mcp wallet > subscriptions", () => {
  let desk: Desk;
  let relay: Relay;
  let planId: Hex;
  let provider: Provider;
  let stopGate: () => Promise<void>;
  let gateUrl: string;
  let evil: StandIn;
  /** ids of subscriptions that the gate was sent */
  const ids = new Set<string>();

  before(async () => {
    desk = await Desk.open();
    relay = await startRelay();
    planId = await relay.createPlan();
    await relay.fund(addressOf("payer"));
    const rpc = await startRpc();
    provider = testProvider({ url: relay.url, signer: addressOf("facilitator") } as SmallFacilitator, {
      token: { address: relay.addresses.token, name: "Test USD", version: "1" },
      rpcUrl: rpc.url,
      turnpike: relay.addresses.turnpike,
      pollMs: 50,
      clock: undefined as never,
    });
    const app = express();
    const gate = expressGate(provider.gate({ pricing: [{ type: "subscription", plan: planId }] }));
    app.use("/echo", gate, (request, response) => {
      const id = request.header("x-service-sub") ?? "";
      ids.add(id);
      response.json({ kind: (request.payment as Payment).kind, echo: id, upper: id.toUpperCase() });
    });
    app.use("/leak", gate, (request, response) => {
      response.redirect(307, `https://elsewhere.example/?id=${request.header("x-service-sub")}`);
    });
    const server = createServer(app);
    gateUrl = await listen(server);
    stopGate = () => closeServer(server);
    // It offers the other provider's plan, in the hope of getting the id that is served there.
    evil = await serve(() => ({
      status: 402,
      json: {
        version: "1",
        accepts: [],
        plans: [
          { planId, amount: PRICE.toString(), interval: 2_592_000, token: relay.addresses.token, network: NETWORK },
        ],
        error: "PaymentRequired",
        message: "Subscribe.",
      },
    }));
    await desk.configure(relay.url, {
      policy: { perDay: "$50.00", perSubscription: "$30.00", tokens: [relay.addresses.token] },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
      origins: [gateUrl],
      privateOrigins: [gateUrl, evil.url],
    });
  });
  after(async () => {
    await desk.close();
    await stopGate();
    await closeAll();
  });

  it("MW8 subscribes, is served, and changes it by a handle; no id is in any result or log", async () => {
    const shown: string[] = [];
    const host = await desk.host();
    const call: Host["call"] = async (name, args) => {
      const called = await host.call(name, args);
      shown.push(called.whole);
      return called;
    };
    const { facts: made } = await call("subscribe", { url: `${gateUrl}/echo`, maxOverage: "$5.00" });
    expect(made).to.deep.include({
      status: "ACTIVE",
      price: { decimal: "10.00", baseUnits: PRICE.toString() },
      planId,
    });
    const name = made.subscription as string;
    expect(name).to.match(/^sub-[0-9a-f]{10}$/);

    const served = await call("fetch", { url: `${gateUrl}/echo` });
    expect(served.facts.status, served.whole).to.equal(200);
    expect(served.parts[0]?.text).to.contain('"kind":"subscription","echo":"[secret]"');

    const led = await call("fetch", { url: `${gateUrl}/leak` });
    expect([led.facts.status, led.facts.location]).to.deep.equal([307, undefined]);
    expect(led.parts[0]?.text).to.match(
      /^(untrusted-\w+)\nlocation: https:\/\/elsewhere\.example\/\?id=\[secret\]\n\1$/m,
    );

    const above = await call("set_cap", { subscription: name, cap: "$20.01" });
    expect([above.isError, above.facts.reason]).to.deep.equal([true, "limit"]);
    expect((await call("set_cap", { subscription: name, cap: "$8.00" })).facts.overageCap.decimal).to.equal("8.00");
    expect((await call("pause", { subscription: name })).facts.status).to.equal("PAUSED");
    expect((await call("pause", { subscription: name, resume: true })).facts.status).to.equal("ACTIVE");

    const lured = await call("subscribe", { url: `${evil.url}/offer` });
    expect([lured.isError, lured.facts.reason]).to.deep.equal([true, "cannot_ask"]);
    await call("fetch", { url: `${evil.url}/offer` });
    expect(evil.seen.map(({ headers }) => headers["x-service-sub"])).to.deep.equal([undefined]);

    expect((await call("cancel", { subscription: name })).facts.endsAtPeriodEnd).to.equal(true);
    const { facts } = await call("subscriptions");
    expect(facts.subscriptions.map((each: { subscription: string }) => each.subscription)).to.deep.equal([name]);
    expect((await call("history")).facts.entries[0]).to.deep.include({ kind: "subscription", subscription: name });
    expect((await call("cancel", { subscription: "sub-ffffffffff" })).facts.error).to.equal("InvalidRequest");

    await host.stop();
    shown.push(await host.log);
    expect(ids.size).to.equal(1);
    for (const id of ids) {
      for (const each of shown) expect(each.toLowerCase()).to.not.contain(id.slice(2).toLowerCase());
    }
  }).timeout(120_000);
});
