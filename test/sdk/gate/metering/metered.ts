import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { Contract } from "ethers";
import { lensAddressOf, lensInterface } from "turnpike/chain";
import { type Deduction, deductAllowance, type Payment, type Provider } from "turnpike/gate";
import { NO_AUTH } from "../../../support/acts";
import { testKey } from "../../../support/chain";
import {
  FRAMEWORKS,
  type Framework,
  ONE_TIME,
  paidHeaders,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestServer,
} from "../../../support/gate";
import { type SubscriptionWorld, startSubscriptionWorld } from "../../../support/subscriptions";
import { providerOn } from "../support/chain-provider";

const CAP = 1_000_000n;
const COST = 300_000n;

for (const framework of Object.keys(FRAMEWORKS) as Framework[]) {
  describe(`metered requests through ${framework}`, function () {
    this.timeout(120_000);
    let world: SubscriptionWorld;
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: TestServer;
    let folder: string;
    const deductions: Deduction[] = [];

    const charge = (payment: Payment) => async () => {
      deductions.push(await payment.deduct(COST));
      return {};
    };

    before(async () => {
      world = await startSubscriptionWorld();
      facilitator = await startSmallFacilitator();
    });
    after(async () => {
      await facilitator.stop();
      await world.stop();
    });
    beforeEach(async () => {
      folder = mkdtempSync(path.join(tmpdir(), "turnpike-meter-"));
      await world.chain.wallet("provider");
      provider = providerOn(world, facilitator, {
        operatorKey: testKey("provider") as `0x${string}`,
        meterFolder: folder,
      });
      const pricing = [{ type: "subscription", plan: world.planId }, ...ONE_TIME] as const;
      server = await FRAMEWORKS[framework](provider, [
        { path: "/tokens", gate: { pricing, metered: true }, handle: charge as never },
        { path: "/late", gate: { pricing }, handle: charge as never },
        {
          path: "/ambient",
          gate: { pricing },
          handle: (() => async () => void deductions.push(await deductAllowance("100000"))) as never,
        },
      ]);
      await provider.ready();
      deductions.length = 0;
    });
    afterEach(async () => {
      await server.stop();
      await provider.close();
      rmSync(folder, { recursive: true, force: true });
    });

    const ask = (id: string, where = "/tokens") => send(`${server.url}${where}`, { headers: { "X-Service-Sub": id } });

    it("charges each call, clips the last to what remains, then answers 402 before the handler", async () => {
      const { id, idHash } = await world.subscribe("meters", { maxOverage: CAP });
      for (let i = 0; i < 4; i++) expect((await ask(id)).status).to.equal(200);
      expect(deductions.map(({ charged }) => charged)).to.deep.equal([COST, COST, COST, 100_000n]);
      expect(deductions.at(-1)).to.include({ clipped: true, remaining: 0n });
      const refused = await ask(id);
      expect(refused.status).to.equal(402);
      expect(refused.json.error).to.equal("AllowanceExhausted");
      expect(refused.json.accepts).to.have.length(1);
      expect(refused.json.message).to.match(/raise/i);
      expect(server.served.get("/tokens")).to.equal(4);
      const lens = new Contract(lensAddressOf(world.contracts.turnpike), lensInterface, world.chain.provider);
      await provider.flush();
      expect((await lens.getFunction("getAllowance")(idHash)).spent).to.equal(CAP);
    });

    it("C13 never charges parallel calls above the cap", async () => {
      const { id } = await world.subscribe("parallel", { maxOverage: CAP });
      const answers = await Promise.all(Array.from({ length: 20 }, () => ask(id)));
      const charged = deductions.reduce((sum, deduction) => sum + deduction.charged, 0n);
      expect(charged).to.equal(CAP);
      const statuses = answers.map(({ status }) => status);
      expect(statuses.filter((status) => status === 200)).to.have.length(4);
      expect(statuses.filter((status) => status === 402)).to.have.length(16);
    });

    it("turns a charge that the handler could not make into a 402 with every option", async () => {
      const { id } = await world.subscribe("capless");
      const refused = await ask(id, "/late");
      expect(refused.status, refused.text).to.equal(402);
      expect(refused.json.error).to.equal("AllowanceExhausted");
      expect(refused.json.accepts).to.have.length(1);
      expect(refused.headers["content-type"]).to.match(/^application\/json/);
      expect(refused.headers["cache-control"]).to.include("no-store");
      expect(server.served.get("/late")).to.equal(1);
      expect((await ask(id, "/late")).status).to.equal(402);
      expect(server.served.get("/late"), "known to be metered by now").to.equal(1);
    });

    it("serves again once the cap was raised", async () => {
      const { id, idHash, turnpike } = await world.subscribe("raises", { maxOverage: COST });
      expect((await ask(id)).status).to.equal(200);
      expect((await ask(id)).status).to.equal(402);
      await world.mined(turnpike.getFunction("setMaxOverage")(idHash, CAP, NO_AUTH));
      expect((await ask(id)).status).to.equal(200);
    });

    it("finds the current request's subscription for deductAllowance, and charges one-time requests nothing", async () => {
      const { id } = await world.subscribe("ambient", { maxOverage: CAP });
      expect((await ask(id, "/ambient")).status).to.equal(200);
      expect(deductions[0]).to.deep.equal({ charged: 100_000n, remaining: CAP - 100_000n, clipped: false });
      const url = `${server.url}/ambient`;
      const [entry] = (await send(url)).json.accepts;
      expect(entry.extra.kind).to.equal(undefined);
      const nowSec = (await world.chain.provider.getBlock("latest"))?.timestamp ?? 0;
      const headers = await paidHeaders(url, { settledAt: nowSec, expiresAt: nowSec + 600 });
      expect((await send(url, { headers })).status).to.equal(200);
      expect(deductions[1]?.charged).to.equal(0n);
    });
  });
}
