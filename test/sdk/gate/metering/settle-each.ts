import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { Contract } from "ethers";
import { lensAddressOf, lensInterface, turnpikeInterface } from "turnpike/chain";
import type { Deduction, Provider } from "turnpike/gate";
import { testKey } from "../../../support/chain";
import {
  FRAMEWORKS,
  type Framework,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestServer,
} from "../../../support/gate";
import { type SubscriptionWorld, startSubscriptionWorld, until } from "../../../support/subscriptions";
import { providerOn } from "../support/chain-provider";

const COST = 300_000n;

for (const framework of Object.keys(FRAMEWORKS) as Framework[]) {
  describe(`settle: "each" through ${framework}`, function () {
    this.timeout(120_000);
    let world: SubscriptionWorld;
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: TestServer;
    let folder: string;
    let turnpike: Contract;
    let lens: Contract;
    const deductions: Deduction[] = [];

    before(async () => {
      world = await startSubscriptionWorld();
      facilitator = await startSmallFacilitator();
      lens = new Contract(lensAddressOf(world.contracts.turnpike), lensInterface, world.chain.provider);
      turnpike = new Contract(world.contracts.turnpike, turnpikeInterface, world.chain.provider);
      folder = mkdtempSync(path.join(tmpdir(), "turnpike-each-"));
      const operatorKey = testKey("provider") as `0x${string}`;
      provider = providerOn(world, facilitator, { operatorKey, meterFolder: folder, settle: "each" });
      const handle = (payment: { deduct(amount: bigint): Promise<Deduction> }) => async () => {
        deductions.push(await payment.deduct(COST));
        return {};
      };
      server = await FRAMEWORKS[framework](provider, [
        {
          path: "/tokens",
          gate: { pricing: [{ type: "subscription", plan: world.planId }], metered: true },
          handle: handle as never,
        },
      ]);
      await provider.ready();
    });
    after(async () => {
      await server?.stop();
      await provider?.close();
      await facilitator.stop();
      await world.stop();
      rmSync(folder, { recursive: true, force: true });
    });
    beforeEach(() => {
      deductions.length = 0;
    });

    const ask = (id: string) => send(`${server.url}/tokens`, { headers: { "X-Service-Sub": id } });
    const spent = async (idHash: string): Promise<bigint> => (await lens.getFunction("getAllowance")(idHash)).spent;
    const debits = async (idHash: string) =>
      (await turnpike.queryFilter("Debited", 0)).flatMap((log) => {
        const { args } = turnpikeInterface.parseLog(log) ?? {};
        return args?.idHash === idHash ? [{ amount: args.amount as bigint, index: Number(args.index) }] : [];
      });

    it("answers a call when its own debit is on chain, one debit for each call", async () => {
      const { id, idHash } = await world.subscribe("each", { maxOverage: 1_000_000n });
      for (let call = 1n; call <= 3n; call++) {
        expect((await ask(id)).status).to.equal(200);
        expect(await spent(idHash), "at the moment of the answer").to.equal(call * COST);
      }
      const last = await ask(id);
      expect(last.status).to.equal(200);
      expect(deductions.at(-1)).to.deep.equal({ charged: 100_000n, remaining: 0n, clipped: true });
      expect((await ask(id)).json.error).to.equal("AllowanceExhausted");
      expect(await debits(idHash)).to.deep.equal([
        ...[0, 1, 2].map((index) => ({ amount: COST, index })),
        { amount: 100_000n, index: 3 },
      ]);
    });

    it("C13 debits parallel calls never above the cap, and serves what it debited", async () => {
      const { id, idHash } = await world.subscribe("each in parallel", { maxOverage: 1_000_000n });
      const statuses = (await Promise.all(Array.from({ length: 8 }, () => ask(id)))).map(({ status }) => status);
      expect(statuses.filter((status) => status === 200)).to.have.length(4);
      expect(statuses.filter((status) => status === 402)).to.have.length(4);
      expect(await spent(idHash)).to.equal(1_000_000n);
      const charged = deductions.reduce((sum, deduction) => sum + deduction.charged, 0n);
      expect(charged).to.equal(1_000_000n);
      expect((await debits(idHash)).map(({ index }) => index)).to.deep.equal([0, 1, 2, 3]);
    });

    it("answers 402 to a call that the wallet cannot pay, and serves it once it can", async () => {
      const { id, idHash, turnpike: own } = await world.subscribe("each without funds", { maxOverage: 1_000_000n });
      const wallet = own.runner as never;
      const token = new Contract(
        world.contracts.token,
        ["function approve(address,uint256) returns (bool)"],
        wallet,
      ).getFunction("approve");
      await world.mined(token(world.contracts.turnpike, 0n));
      const refused = await ask(id);
      expect(refused.status, refused.text).to.equal(402);
      expect(refused.json.error).to.equal("InsufficientFunds");
      expect(await debits(idHash)).to.deep.equal([]);
      await world.mined(token(world.contracts.turnpike, 2n ** 255n));
      expect((await ask(id)).status).to.equal(200);
      expect(await spent(idHash)).to.equal(COST);
    });

    it("S2 debits once what it serves when the chain was away in the middle of a call", async () => {
      const { id, idHash } = await world.subscribe("each in an outage", { maxOverage: 1_000_000n });
      expect((await ask(id)).status).to.equal(200);
      const cut = world.rpc.refused;
      world.rpc.isDown = true;
      const answer = ask(id);
      await until(() => world.rpc.refused > cut);
      world.rpc.isDown = false;
      expect((await answer).status).to.be.oneOf([200, 503]);
      const served = deductions.reduce((sum, deduction) => sum + deduction.charged, 0n);
      expect(await spent(idHash), "what was debited was served").to.equal(served);
      expect((await ask(id)).status).to.equal(200);
      expect(await spent(idHash)).to.equal(served + COST);
    });
  });
}
