import { expect } from "chai";
import { BatchSettler__factory, lensAddressOf, TurnpikeLens__factory } from "turnpike/chain";
import { TurnpikeError } from "turnpike/protocol";
import { directDebits } from "../../../examples/direct-debits";
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
    await world.mined(asSubscriber.getFunction("pause")(idHash));
    expect(await gate.isServed(idHash)).to.equal(false);
  });

  it("deploy, for chains of one's own", async () => {
    const deployer = await world.chain.wallet("provider");
    const settler = await new BatchSettler__factory(deployer).deploy();
    expect(await settler.settle.staticCall([], 100_000n)).to.deep.equal([]);
  });
});
