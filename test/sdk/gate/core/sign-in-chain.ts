import { expect } from "chai";
import { ContractFactory, Wallet } from "ethers";
import type { Provider } from "turnpike/gate";
import type { Address, Hex } from "turnpike/protocol";
import { readArtifact } from "../../../../scripts/deploy/artifact";
import { NO_AUTH } from "../../../support/acts";
import {
  FRAMEWORKS,
  keyOf,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestServer,
  testProvider,
} from "../../../support/gate";
import { type SubscriptionWorld, startSubscriptionWorld, until } from "../../../support/subscriptions";
import { answerTo, challengeOf } from "../support/sign-in";

describe("sign-in-with-x on a chain", function () {
  this.timeout(120_000);
  let world: SubscriptionWorld;
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let server: TestServer;
  let url: string;
  /** what the index returns, by wallet; "down" makes it unreachable */
  const index = new Map<string, { idHash: Hex; planId: Hex }[] | "down">();

  before(async () => {
    world = await startSubscriptionWorld();
    facilitator = await startSmallFacilitator();
    const { token: address, tokenName: name, tokenVersion: version, turnpike } = world.contracts;
    provider = testProvider(facilitator, {
      token: { address, name, version },
      rpcUrl: world.rpc.url,
      turnpike,
      pollMs: 50,
      clock: undefined as never,
      fetch: listSubscriptions,
    });
    const pricing = [{ type: "subscription", plan: world.planId }] as const;
    server = await FRAMEWORKS.express(provider, [{ path: "/feed", gate: { pricing } }]);
    await provider.ready();
    url = `${server.url}/feed`;
  });
  after(async () => {
    await server.stop();
    await provider.close();
    await facilitator.stop();
    await world.stop();
  });

  async function listSubscriptions(input: string): Promise<Response> {
    const { pathname, searchParams } = new URL(input);
    expect(searchParams.get("network")).to.equal("eip155:31337");
    const wallet = /^\/accounts\/(0x[0-9a-fA-F]{40})\/subscriptions$/.exec(pathname)?.[1] ?? "";
    const listed = index.get(wallet) ?? [];
    if (listed === "down") throw new TypeError("no connection");
    const common = { network: "local-31337", chainId: 31_337, subscriber: wallet, status: "ACTIVE", version: 0 };
    const allowance = { cap: "0", spent: "0", remaining: "0", debits: 0 };
    const rest = { paidThrough: 1, ending: false, chainTimeSec: 1, allowance };
    return Response.json({ subscriptions: listed.map((each) => ({ ...common, ...each, ...rest })), more: false });
  }

  const ask = async (wallet: Wallet, say: Record<string, unknown> = {}) => {
    const answer = await send(url, { headers: await answerTo(await challengeOf(url), wallet, { say }) });
    return answer.status === 200 ? "served" : (answer.json.reason ?? answer.json.error);
  };

  it("C11 does not trust the index: the chain decides who owns a subscription and what it covers", async () => {
    const owner = await world.chain.wallet("owner");
    const thief = new Wallet(keyOf("thief"));
    const { idHash } = await world.subscribe("owner");
    const other = await world.subscribe("owner", { planId: world.otherPlanId });
    index.set(thief.address, [{ idHash, planId: world.planId }]);
    expect(await ask(thief)).to.equal("sign_in_no_subscription");
    index.set(owner.address, [{ idHash: other.idHash, planId: world.planId }]);
    expect(await ask(owner)).to.equal("other_plan");
    index.set(owner.address, [{ idHash, planId: world.planId }]);
    expect(await ask(owner)).to.equal("served");
  });

  it("C12 serves no subscription that has ended, even if the index still lists it", async () => {
    const { idHash, turnpike } = await world.subscribe("leaver");
    const leaver = await world.chain.wallet("leaver");
    index.set(leaver.address, [{ idHash, planId: world.planId }]);
    expect(await ask(leaver)).to.equal("served");
    await world.mined(turnpike.getFunction("cancel")(idHash, false, NO_AUTH));
    await until(async () => (await ask(leaver)) === "cancelled");
  });

  it("keeps serving known wallets while the index is down, and returns 503 to others", async () => {
    const { idHash } = await world.subscribe("regular");
    const regular = await world.chain.wallet("regular");
    index.set(regular.address, [{ idHash, planId: world.planId }]);
    expect(await ask(regular)).to.equal("served");
    index.set(regular.address, "down");
    expect(await ask(regular)).to.equal("served");
    const stranger = new Wallet(keyOf("stranger"));
    index.set(stranger.address, "down");
    expect(await ask(stranger)).to.equal("Unavailable");
  });

  it("A7 calls contract wallets, and treats any failure of one as a refusal", async () => {
    const owner = new Wallet(keyOf("wallet owner"));
    const deployer = await world.chain.wallet("deployer of wallets");
    const reasons: Record<string, string> = {};
    for (const name of ["TestWallet", "BurnerWallet", "FickleWallet"]) {
      const { initCode } = readArtifact("contracts/test/TestWallets.sol", name);
      const made = await new ContractFactory(["constructor(address)"], initCode, deployer).deploy(owner.address);
      await made.waitForDeployment();
      const address = (await made.getAddress()) as Address;
      index.set(address, []);
      reasons[name] = await ask(owner, { address });
    }
    expect(reasons).to.deep.equal({
      // Identified, and without a subscription.
      TestWallet: "sign_in_no_subscription",
      BurnerWallet: "sign_in_signature",
      FickleWallet: "sign_in_signature",
    });
  });
});
