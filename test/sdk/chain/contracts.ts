import { expect } from "chai";
import {
  acceptPlan,
  BatchSettler__factory,
  connectRpc,
  createPlan,
  deprecatePlan,
  lensAddressOf,
  loadPlans,
  proposePayTo,
  stopPlan,
  TurnpikeLens__factory,
  withdrawPayTo,
} from "turnpike/chain";
import { TurnpikeError } from "turnpike/protocol";
import { directDebits } from "../../../examples/direct-debits";
import { NO_AUTH } from "../../support/acts";
import { type SubscriptionWorld, startSubscriptionWorld } from "../../support/subscriptions";

describe("the contracts as typed ethers classes", function () {
  this.timeout(120_000);
  let world: SubscriptionWorld;

  before(async () => {
    world = await startSubscriptionWorld();
  });
  after(() => world.stop());

  it("let a provider read ACTIVE and debit with a signer of ethers", async () => {
    const { idHash, turnpike: asSubscriber } = await world.subscribe("debited directly", { maxOverage: 1_000n });
    const operator = await world.chain.wallet("provider");
    const gate = directDebits(world.contracts.turnpike, operator);
    expect(await gate.isServed(idHash)).to.equal(true);
    await gate.debit(idHash, 300n);
    await gate.debit(idHash, 700n);
    const lens = TurnpikeLens__factory.connect(lensAddressOf(world.contracts.turnpike), operator);
    const { spent, debits } = await lens.getAllowance(idHash);
    expect([spent, debits]).to.deep.equal([1_000n, 2n]);
    const refused = await gate.debit(idHash, 1n).catch((error) => error);
    expect(refused).to.be.instanceOf(TurnpikeError).and.include({ code: "AllowanceExhausted" });
    await world.mined(asSubscriber.getFunction("pause")(idHash, NO_AUTH));
    expect(await gate.isServed(idHash)).to.equal(false);
  });

  it("throw what the contract refuses by its own name, with its arguments", async () => {
    const provider = await world.chain.wallet("provider");
    const { turnpike, token } = world.contracts;
    const refused = (act: Promise<unknown>): Promise<TurnpikeError> =>
      act.then(
        () => expect.fail("it is refused"),
        (error: TurnpikeError) => error,
      );
    const plan = { token, amount: 1n, months: 1, graceSec: 3_600, salt: `0x${"5a".repeat(32)}` } as const;
    const { planId } = await createPlan(provider, turnpike, plan);
    const zero = await refused(createPlan(provider, turnpike, { ...plan, amount: 0n }));
    expect(zero).to.deep.include({ code: "InvalidTerms", details: { field: "amount" } });
    const payee = await refused(proposePayTo(provider, turnpike, { planId, payTo: turnpike }));
    expect(payee.message).to.equal("InvalidTerms: field payTo");
    expect(await refused(withdrawPayTo(provider, turnpike, planId))).to.deep.include({
      ...{ code: "NotProposed", details: { planId } },
    });
    expect((await refused(acceptPlan(provider, turnpike, planId))).code).to.equal("NotProvider");
    await deprecatePlan(provider, turnpike, { planId });
    expect((await refused(deprecatePlan(provider, turnpike, { planId }))).code).to.equal("PlanDeprecated");
    const rpc = connectRpc({ urls: world.rpc.url, chainId: 31_337 });
    const ends = async () => {
      const found = (await loadPlans(rpc, turnpike, [planId])).get(planId);
      return [found?.deprecated, found?.stopped];
    };
    expect(await ends()).to.deep.equal([true, false]);
    await stopPlan(provider, turnpike, planId);
    expect(await ends()).to.deep.equal([true, true]);
    expect((await refused(stopPlan(provider, turnpike, planId))).code).to.equal("PlanStopped");
    rpc.close();
  });

  it("deploy, for chains of one's own", async () => {
    const deployer = await world.chain.wallet("provider");
    const settler = await new BatchSettler__factory(deployer).deploy();
    expect(await settler.settle.staticCall([], 100_000n)).to.deep.equal([]);
  });
});
