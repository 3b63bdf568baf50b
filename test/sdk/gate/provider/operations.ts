import { createServer } from "node:http";
import { expect } from "chai";
import express, { type Express } from "express";
import {
  buildPaymentRequired,
  ConfigError,
  close,
  configure,
  createProvider,
  deductAllowance,
  type ProviderOptions,
  parsePaymentProof,
  paymentGate,
  verifyPaymentProof,
} from "turnpike";
import { memoryClaims } from "turnpike/gate";
import { encodePaymentProof } from "turnpike/protocol";
import {
  addressOf,
  closeServer,
  listen,
  PAY_TO,
  proofOf,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
} from "../../../support/gate";
import { type SubscriptionWorld, startSubscriptionWorld } from "../../../support/subscriptions";

describe("the provider's operations", function () {
  this.timeout(120_000);
  let world: SubscriptionWorld;
  let facilitator: SmallFacilitator;
  const stops: (() => Promise<unknown>)[] = [];

  before(async () => {
    world = await startSubscriptionWorld();
    facilitator = await startSmallFacilitator();
  });
  after(async () => {
    await facilitator.stop();
    await world.stop();
  });
  afterEach(async () => {
    facilitator.mode = "valid";
    for (const stop of stops.splice(0)) await stop();
    await close();
  });

  const options = (): ProviderOptions => ({
    network: "local-31337",
    rpcUrl: world.rpc.url,
    turnpike: world.contracts.turnpike,
    token: world.contracts.token,
    payTo: PAY_TO,
    facilitator: { url: facilitator.url, signers: [facilitator.signer] },
    secret: "a secret of this test, long enough to be one",
    claims: memoryClaims({ warn: false }),
    pollMs: 50,
  });

  async function serve(build: (app: Express) => void): Promise<string> {
    const app = express();
    build(app);
    app.use(
      (error: Error & { status?: number; code?: string }, _q: unknown, response: express.Response, _n: unknown) => {
        response.status(error.status ?? 500).json({ error: error.code, message: error.message });
      },
    );
    const server = createServer(app);
    stops.push(() => closeServer(server));
    return listen(server);
  }

  /** A handler as a provider would write it by hand. */
  const byHand = (
    app: Express,
    plan: string,
    served: (response: express.Response) => void = (r) => void r.json({ ok: true }),
  ) =>
    app.get("/hand", async (request, response) => {
      const header = request.get("X-PAYMENT");
      if (header !== undefined && (await verifyPaymentProof(parsePaymentProof(header)))) return served(response);
      response.status(402).json(buildPaymentRequired({ plan }));
    });

  it("quote, verify and serve in a handler of one's own, with nothing mounted", async () => {
    await configure({ ...options(), plans: [world.planId] });
    const url = `${await serve((app) => byHand(app, world.planId))}/hand`;
    const quoted = await send(url);
    expect(quoted.status).to.equal(402);
    expect(quoted.json).to.include({ version: "1" });
    const [entry] = quoted.json.accepts;
    expect(entry.hoodlayer).to.include({ planId: world.planId, subscriptionScheme: true });
    expect(quoted.json.plans[0].planId).to.equal(world.planId);
    const nowSec = (await world.chain.provider.getBlock("latest"))?.timestamp ?? 0;
    const times = { settledAt: nowSec, expiresAt: nowSec + 600 };
    const headers = { "X-PAYMENT": encodePaymentProof(proofOf(entry, times)) };
    expect((await send(`${url}?other`, { headers })).status).to.equal(402);
    facilitator.mode = "down";
    const outage = await send(url, { headers });
    expect(outage.status).to.equal(503);
    expect(outage.json.error).to.equal("Unavailable");
    facilitator.mode = "valid";
    expect((await send(url, { headers })).status).to.equal(200);
    expect((await send(url, { headers })).status).to.equal(402);
  });

  it("C14 gives the payment back when a handler of one's own fails", async () => {
    await configure({ ...options(), plans: [world.planId] });
    let fails = 1;
    const url = await serve((app) =>
      byHand(app, world.planId, (response) => {
        if (fails-- > 0) throw new RangeError("broke");
        response.json({ ok: true });
      }),
    );
    const [entry] = (await send(`${url}/hand`)).json.accepts;
    const nowSec = (await world.chain.provider.getBlock("latest"))?.timestamp ?? 0;
    const headers = { "X-PAYMENT": encodePaymentProof(proofOf(entry, { settledAt: nowSec, expiresAt: nowSec + 600 })) };
    expect((await send(`${url}/hand`, { headers })).status).to.equal(500);
    expect((await send(`${url}/hand`, { headers })).status).to.equal(200);
    expect((await send(`${url}/hand`, { headers })).status).to.equal(402);
  });

  it("gate a route by the root paymentGate, subscribers included", async () => {
    await configure(options());
    const gate = paymentGate({
      pricing: [
        { type: "subscription", plan: world.planId },
        { type: "one-time", amount: 500_000 },
      ],
    });
    await gate.ready();
    const url = await serve((app) =>
      app.get("/gated", gate, (request, response) => void response.json(request.payment?.kind)),
    );
    const { id } = await world.subscribe("rooted");
    expect((await send(`${url}/gated`)).json.accepts).to.have.length(1);
    expect((await send(`${url}/gated`, { headers: { "X-Service-Sub": id } })).json).to.equal("subscription");
  });

  it("C6 serves a payment beside a subscription that cannot be judged, and answers 503 for the latter alone", async () => {
    await configure({ ...options(), verify: "signature" });
    const gate = paymentGate({
      pricing: [
        { type: "subscription", plan: world.planId },
        { type: "one-time", amount: 500_000 },
      ],
      replay: false,
    });
    await gate.ready();
    const url = `${await serve((app) => app.get("/gated", gate, (_request, response) => void response.json("ok")))}/gated`;
    const { id } = await world.subscribe("doubly");
    const [entry] = (await send(url)).json.accepts;
    const nowSec = (await world.chain.provider.getBlock("latest"))?.timestamp ?? 0;
    const proof = encodePaymentProof(proofOf(entry, { settledAt: nowSec, expiresAt: nowSec + 600 }));
    // A subscription that grants leaves the payment unused.
    expect((await send(url, { headers: { "X-Service-Sub": id, "X-PAYMENT": proof } })).status).to.equal(200);
    world.rpc.isDown = true;
    const { id: unread } = { id: id.replace(/.$/, (last) => (last === "0" ? "1" : "0")) };
    expect((await send(url, { headers: { "X-Service-Sub": unread } })).status).to.equal(503);
    expect((await send(url, { headers: { "X-Service-Sub": unread, "X-PAYMENT": proof } })).status).to.equal(200);
    expect((await send(url, { headers: { "X-Service-Sub": unread, "X-PAYMENT": proof } })).status).to.equal(503);
    world.rpc.isDown = false;
  });

  it("refuse to guess: ConfigError outside a request, for an unloaded plan, and without a configuration", async () => {
    const provider = createProvider(options());
    stops.push(() => provider.close());
    expect(() => provider.buildPaymentRequired({ plan: world.otherPlanId })).to.throw(ConfigError, /not loaded/);
    const proof = proofOf({
      scheme: "exact",
      network: "local-31337",
      payTo: PAY_TO,
      amount: "1",
      memo: "m",
      resource: "r",
    });
    expect(await provider.verifyPaymentProof(proof).catch((error) => error.code)).to.equal("ConfigError");
    expect(await deductAllowance(1n).catch((error) => error.code)).to.equal("ConfigError");
    await close();
    expect(() => paymentGate({ pricing: [{ type: "one-time", amount: 1 }] })).to.throw(ConfigError, /configure/);
  });

  it("say at start-up what is wrong with the configuration", async () => {
    const { network, ...rest } = options();
    const wrong: [ProviderOptions, RegExp][] = [
      [rest, /network is not set/],
      [{ ...options(), network: "nowhere" }, /network is "nowhere"/],
      [{ ...options(), payTo: "0x12" }, /payTo/],
      [{ ...options(), payTo: `0x${"0".repeat(40)}` }, /payTo is the zero address/],
      [{ ...options(), secret: "short" }, /secret/],
      [{ ...options(), publicUrl: "api.example" }, /publicUrl/],
      [{ ...options(), facilitator: { url: facilitator.url, signers: ["nobody"] } }, /facilitator.signers/],
      [{ ...options(), turnpike: "0xzz" }, /turnpike/],
      [{ ...options(), operatorKey: "0x12" }, /operatorKey/],
    ];
    for (const [given, message] of wrong)
      expect(() => createProvider(given), String(message)).to.throw(ConfigError, message);

    const provider = createProvider(options());
    stops.push(() => provider.close());
    const gateOf = (pricing: unknown) => () => provider.paymentGate({ pricing: pricing as never });
    expect(gateOf([{ type: "one-time", amount: 0.5 }])).to.throw(ConfigError, /pricing\[0\].amount is 0.5/);
    expect(gateOf([{ type: "one-time", amount: "0.50" }])).to.throw(ConfigError, /whole number/);
    expect(gateOf([{ type: "one-time", amount: 0 }])).to.throw(ConfigError, /free/);
    expect(gateOf([{ type: "subscription", plan: "pro" }])).to.throw(ConfigError, /plan id/);
    expect(gateOf([{ type: "rent" }])).to.throw(ConfigError, /type/);
    expect(gateOf([])).to.throw(ConfigError, /empty/);
    const noSigners = createProvider({ ...options(), facilitator: { url: facilitator.url } });
    stops.push(() => noSigners.close());
    expect(() => noSigners.paymentGate({ pricing: [{ type: "one-time", amount: 1 }] })).to.throw(
      ConfigError,
      /signers/,
    );
  });

  it("say what the chain does not have: the plan, the contract, the chain itself", async () => {
    const problem = async (given: ProviderOptions, plan: string) => {
      const provider = createProvider(given);
      stops.push(() => provider.close());
      const gate = provider.gate({ pricing: [{ type: "subscription", plan }] });
      return gate.ready().then(
        () => "ready",
        (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
      );
    };
    expect(await problem(options(), `0x${"99".repeat(32)}`)).to.match(/^ConfigError: plan 0x99.* does not exist/);
    expect(await problem({ ...options(), network: "local-1" }, world.planId)).to.match(/^ConfigError: .*chain 31337/);
    expect(await problem({ ...options(), turnpike: addressOf("nobody") }, world.planId)).to.match(
      /^ConfigError: .*no contract/,
    );
    expect(await problem(options(), world.planId)).to.equal("ready");
  });

  it("are configured by the environment", async () => {
    const env: Record<string, string> = {
      TURNPIKE_NETWORK: "local-31337",
      TURNPIKE_RPC_URL: world.rpc.url,
      TURNPIKE_ADDRESS: world.contracts.turnpike,
      TURNPIKE_TOKEN: world.contracts.token,
      TURNPIKE_PAY_TO: PAY_TO,
      TURNPIKE_FACILITATOR_URL: facilitator.url,
      TURNPIKE_FACILITATOR_SIGNERS: facilitator.signer,
      TURNPIKE_SECRET: "the secret of this environment is long enough",
      TURNPIKE_CLAIMS: "memory",
    };
    Object.assign(process.env, env);
    try {
      const gate = paymentGate({ pricing: [{ type: "one-time", amount: 500_000 }] });
      await gate.ready();
      const url = await serve((app) => app.get("/env", gate, (_request, response) => void response.json("ok")));
      const [entry] = (await send(`${url}/env`)).json.accepts;
      expect(entry).to.include({ token: world.contracts.token, payTo: PAY_TO });
      const { tokenName: name, tokenVersion: version } = world.contracts;
      expect(entry.extra).to.deep.equal({ name, version, paymentFlow: "upfront" });
    } finally {
      for (const name of Object.keys(env)) delete process.env[name];
    }
  });
});
