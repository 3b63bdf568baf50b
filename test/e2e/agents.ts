import { expect } from "chai";
import { buyProof, present } from "../../scripts/sandbox/by-hand";
import { spentBy, startSandbox, type TestAgent, UNIT, type World } from "../support/sandbox";

describe("end to end > an agent that sells to agents", function () {
  this.timeout(120_000);
  let world: World;
  let ada: TestAgent;

  before(async () => {
    world = await startSandbox();
    ada = await world.agent("ada");
  });
  after(() => world.stop());

  it("buys what it needs with what it earns", async () => {
    const account = world.specialistAccount.address;
    const before = await world.contracts.balanceOf(account);
    const spent = await spentBy(world, ada.address, async () => {
      const response = await ada.agent.pay(`${world.specialist.url}/advice?symbol=ETH`);
      expect(response.status).to.equal(200);
      const { advice, boughtIn } = (await response.json()) as { advice: string; boughtIn: string };
      expect(advice).to.contain("ETH");
      expect(await world.chain.provider.getTransactionReceipt(boughtIn)).to.include({ status: 1 });
    });
    expect(spent).to.equal((3n * UNIT) / 4n);
    expect((await world.contracts.balanceOf(account)) - before).to.equal(UNIT / 4n);
  });

  it("C14 gives a payment back when it could not deliver, and the same proof works later", async () => {
    const url = `${world.specialist.url}/advice?symbol=BTC`;
    const hand = { wallet: ada.wallet, chainId: world.contracts.chainId, facilitator: world.facilitator.url };
    const proof = await buyProof(hand, url);
    await world.provider.stop();
    expect((await present(url, proof)).status).to.be.within(500, 599);
    await world.provider.start();
    expect((await present(url, proof)).status).to.equal(200);
  });
});
