import { expect } from "chai";
import { deprecatePlan, stopPlan } from "turnpike/chain";
import type { Provider } from "turnpike/gate";
import { keccakText, secretHashOf, subscriptionId } from "turnpike/protocol";
import { NO_AUTH } from "../../../support/acts";
import {
  FRAMEWORKS,
  type Framework,
  ONE_TIME,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestServer,
} from "../../../support/gate";
import { DAY, PRICE, type SubscriptionWorld, startSubscriptionWorld, until } from "../../../support/subscriptions";
import { providerOn } from "../support/chain-provider";

for (const framework of Object.keys(FRAMEWORKS) as Framework[]) {
  describe(`subscriber requests through ${framework}`, function () {
    this.timeout(120_000);
    let world: SubscriptionWorld;
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: TestServer;

    before(async () => {
      world = await startSubscriptionWorld();
      facilitator = await startSmallFacilitator();
    });
    after(async () => {
      await facilitator.stop();
      await world.stop();
    });
    beforeEach(async () => {
      provider = providerOn(world, facilitator);
      server = await FRAMEWORKS[framework](provider, [
        { path: "/feed", gate: { pricing: [{ type: "subscription", plan: world.planId }, ...ONE_TIME] } },
        { path: "/only", gate: { pricing: [{ type: "subscription", plan: world.planId }] } },
        { path: "/single", gate: { pricing: ONE_TIME } },
      ]);
      await provider.ready();
    });
    afterEach(async () => {
      world.rpc.isDown = false;
      await server.stop();
      await provider.close();
    });

    const ask = (id: string, path = "/feed") => send(`${server.url}${path}`, { headers: { "X-Service-Sub": id } });

    it("offers one-time in `accepts`, and the plan with its terms in `plans`", async () => {
      const { json } = await send(`${server.url}/feed`);
      expect(json.accepts).to.have.length(1);
      expect(json.accepts[0]).to.deep.include({
        scheme: "exact",
        amount: "500000",
        hoodlayer: { facilitator: facilitator.url, planId: world.planId, subscriptionScheme: true },
      });
      expect(json.plans).to.have.length(1);
      expect(json.plans[0]).to.include({
        planId: world.planId,
        amount: PRICE.toString(),
        interval: 30 * DAY,
        token: world.contracts.token,
      });
    });

    it("sends x402 version 2 clients no plan that they would pay as if it were one request", async () => {
      const required = async (path: string) => {
        const header = (await send(`${server.url}${path}`)).headers["payment-required"] as string;
        return JSON.parse(Buffer.from(header, "base64").toString("utf8"));
      };
      expect((await required("/feed")).accepts).to.have.length(1);
      const only = await required("/only");
      expect(only.accepts.map(({ scheme }: { scheme: string }) => scheme)).to.deep.equal(["subscription"]);
      expect(only.extensions.hoodlayer.info.plans[0]).to.include({ planId: world.planId, amount: PRICE.toString() });
    });

    it("serves an active subscriber, and steadily without asking the chain", async () => {
      const { id } = await world.subscribe("steady");
      const first = await ask(id);
      expect(first.status, first.text).to.equal(200);
      expect(first.json).to.deep.equal({ kind: "subscription" });
      expect(first.headers["cache-control"]).to.equal("private, no-store");
      world.rpc.methods.length = 0;
      for (let i = 0; i < 50; i++) expect((await ask(id)).status).to.equal(200);
      expect(world.rpc.methods.filter((method) => method === "eth_call")).to.have.length(0);
      expect(facilitator.calls).to.have.length(0);
    });

    it("reads many new subscribers in one call", async () => {
      const subscribed = [];
      for (let i = 0; i < 8; i++) subscribed.push(await world.subscribe(`many ${i}`));
      await ask(`0x${"00".repeat(52)}`);
      world.rpc.methods.length = 0;
      const answers = await Promise.all(subscribed.map(({ id }) => ask(id)));
      expect(answers.map(({ status }) => status)).to.deep.equal(Array(8).fill(200));
      expect(world.rpc.methods.filter((method) => method === "eth_call").length).to.be.at.most(4);
    });

    it("C9 refuses what anyone can read from the chain", async () => {
      const { id, idHash, secret } = await world.subscribe("public");
      const subscriber = id.slice(0, 42) as `0x${string}`;
      const readable = [
        idHash,
        subscriptionId(subscriber, idHash),
        subscriptionId(subscriber, secretHashOf(secret)),
        subscriptionId(`0x${"11".repeat(20)}`, secret),
        subscriber,
        "0x",
        "",
      ];
      for (const guess of readable) {
        const answer = await ask(guess);
        expect(answer.status, guess).to.equal(402);
        expect(answer.json.error).to.equal("SubscriptionNotActive");
        expect(answer.json.accepts).to.have.length(1);
      }
      expect((await ask(id)).status).to.equal(200);
    });

    it("C11 refuses a subscription to another plan, and any where none is offered", async () => {
      const { id } = await world.subscribe("other", { planId: world.otherPlanId });
      expect((await ask(id)).json).to.include({ error: "SubscriptionNotActive", reason: "other_plan" });
      const { id: good } = await world.subscribe("good");
      expect((await ask(good, "/single")).json).to.include({ error: "SubscriptionNotActive", reason: "not_offered" });
    });

    it("C12 stops serving within a block of a cancellation, a pause, and a lapse", async () => {
      const cancelled = await world.subscribe("cancels");
      const paused = await world.subscribe("pauses");
      for (const { id } of [cancelled, paused]) expect((await ask(id)).status).to.equal(200);
      await world.mined(cancelled.turnpike.getFunction("cancel")(cancelled.idHash, false, NO_AUTH));
      await world.mined(paused.turnpike.getFunction("pause")(paused.idHash, NO_AUTH));
      await until(async () => (await ask(cancelled.id)).status === 402);
      expect((await ask(cancelled.id)).json.reason).to.equal("cancelled");
      await until(async () => (await ask(paused.id)).json.reason === "paused");
      await world.mined(paused.turnpike.getFunction("resume")(paused.idHash, 0n, NO_AUTH));
      await until(async () => (await ask(paused.id)).status === 200);
    });

    it("sees a signup that follows a refusal in the next block", async () => {
      const secret = keccakText("signs up later");
      const wallet = await world.chain.wallet("late");
      const id = subscriptionId(wallet.address as `0x${string}`, secret);
      expect((await ask(id)).json.reason).to.equal("unknown");
      const { id: real } = await world.subscribe("late");
      await until(async () => (await ask(real)).status === 200);
    });

    it("C6 S2 answers 503 while the chain cannot be asked, never 402 and never unpaid", async () => {
      const { id } = await world.subscribe("unlucky");
      world.rpc.isDown = true;
      const answer = await ask(id);
      expect(answer.status).to.equal(503);
      expect(answer.json.error).to.equal("Unavailable");
      expect(answer.headers["retry-after"]).to.match(/^[1-9]/);
      expect(answer.text).to.not.include(id.slice(2, 40));
      const unpaid = await send(`${server.url}/feed`);
      expect(unpaid.status).to.equal(402);
      expect(unpaid.json.accepts).to.have.length(1);
      world.rpc.isDown = false;
      await until(async () => (await ask(id)).status === 200);
    });

    it("limits clients that try ids at random, and still serves the others", async () => {
      const { id } = await world.subscribe("regular");
      expect((await ask(id)).status).to.equal(200);
      const guesses = Array.from({ length: 300 }, (_, i) =>
        subscriptionId(`0x${"22".repeat(20)}`, keccakText(`guess ${i}`)),
      );
      const statuses = new Set<number>();
      for (let i = 0; i < guesses.length; i += 50) {
        for (const { status } of await Promise.all(guesses.slice(i, i + 50).map((guess) => ask(guess))))
          statuses.add(status);
      }
      expect([...statuses].every((status) => status === 402 || status === 503)).to.equal(true);
      expect((await ask(id)).status).to.equal(200);
    });

    it("keeps serving subscribers of a deprecated plan, and offers it no more", async () => {
      const planId = world.otherPlanId;
      const own = providerOn(world, facilitator, { token: world.contracts.token });
      const second = await FRAMEWORKS[framework](own, [
        { path: "/old", gate: { pricing: [{ type: "subscription", plan: planId }, ...ONE_TIME] } },
      ]);
      await own.ready();
      const snapshot = await world.chain.provider.send("evm_snapshot", []);
      const { id } = await world.subscribe("old", { planId });
      await deprecatePlan(await world.chain.wallet("provider"), world.contracts.turnpike, { planId });
      await until(async () => (await send(`${second.url}/old`)).json.plans === undefined);
      expect((await send(`${second.url}/old`, { headers: { "X-Service-Sub": id } })).status).to.equal(200);
      await second.stop();
      await own.close();
      await world.chain.provider.send("evm_revert", [snapshot]);
    });

    it("C12 serves no grace on a plan that was stopped, and all of the period that was paid", async () => {
      const snapshot = await world.chain.provider.send("evm_snapshot", []);
      const { id } = await world.subscribe("stops");
      expect((await ask(id)).status).to.equal(200);
      await stopPlan(await world.chain.wallet("provider"), world.contracts.turnpike, world.planId);
      expect((await ask(id)).status).to.equal(200);
      await world.chain.advance(30 * DAY - 60);
      await until(async () => (await ask(id)).status === 200);
      await world.chain.advance(120);
      await until(async () => (await ask(id)).status === 402);
      expect((await ask(id)).json.reason).to.equal("cancelled");
      await world.chain.provider.send("evm_revert", [snapshot]);
    });

    it("C12 stops serving when grace ends, by the chain's clock", async () => {
      const { id } = await world.subscribe("lapses");
      expect((await ask(id)).status).to.equal(200);
      await world.chain.advance(33 * DAY - 60);
      await until(async () => (await ask(id)).status === 200);
      await world.chain.advance(120);
      await until(async () => (await ask(id)).status === 402);
      expect((await ask(id)).json.reason).to.equal("past_due");
    });
  });
}
