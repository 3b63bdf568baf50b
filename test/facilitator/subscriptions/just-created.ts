import { expect } from "chai";
import { type Address, idHashOf, randomBytes, toHex } from "turnpike/protocol";
import { type RpcProxy, startRpcProxy } from "../../support/subscriptions";
import { type Service, type ServiceWorld, startServiceWorld } from "../support/service";

describe("Facilitator: plans and subscriptions that were created a moment ago", () => {
  let world: ServiceWorld;
  let service: Service;
  let rpc: RpcProxy;

  before(async () => {
    world = await startServiceWorld();
    rpc = await startRpcProxy(world.chain.rpcUrl);
    // It looks at the chain once in a minute.
    const slow = { POLL_MS: "60000", BLOCK_TIME_MS: "60000" };
    service = await world.service({ RENEWALS: "false", RPC_URLS: rpc.url, ...slow });
  });
  after(async () => {
    await world.stop();
    await rpc.stop();
  });

  it("B13 knows what is in a block that it has not read, and denies only what the chain does not have", async () => {
    const { client } = service;
    const planId = await world.plan();
    expect((await client.plan(planId)).kind).to.equal("found");
    const { address } = world.provider;
    const secretHash = toHex(randomBytes(32));
    await world.contracts.mint(address, 10n ** 9n);
    const token = world.token.connect(world.provider) as typeof world.token;
    await (await token.getFunction("approve")(world.contracts.turnpike, 10n ** 9n)).wait();
    await world.act(world.provider, "subscribe", [planId, secretHash, 0n]);
    expect((await client.subscription(idHashOf(address as Address, secretHash))).kind).to.equal("found");
    const [plan, subscription] = [await client.plan(secretHash), await client.subscription(secretHash)];
    expect(plan.kind === "refused" && plan.error.code).to.equal("UnknownPlan");
    expect(subscription.kind === "refused" && subscription.error.code).to.equal("UnknownSubscription");
  });

  it("asks the chain for all at once, however many name what does not exist", async () => {
    const { client } = service;
    const before = rpc.methods.length;
    const answers = await Promise.all(Array.from({ length: 40 }, () => client.plan(toHex(randomBytes(32)))));
    for (const answer of answers) expect(answer.kind).to.equal("refused");
    expect(rpc.methods.length - before).to.be.within(1, 20);
  });
});
