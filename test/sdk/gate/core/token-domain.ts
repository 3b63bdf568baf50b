/** What a gate says at its start of a token that its payers could not sign for, or that its Facilitator does not settle. */
import { expect } from "chai";
import type { ProviderOptions } from "turnpike/gate";
import type { Address } from "turnpike/protocol";
import {
  FRAMEWORKS,
  ONE_TIME,
  OVER_PERMIT2,
  type SmallFacilitator,
  SUPPORTED,
  send,
  startSmallFacilitator,
} from "../../../support/gate";
import { placeSaltedToken } from "../../../support/salted-token";
import { type SubscriptionWorld, startSubscriptionWorld } from "../../../support/subscriptions";
import { providerOn } from "../support/chain-provider";
import { requiredIn } from "../support/standard";

describe("the token's signing domain, at a gate", function () {
  this.timeout(120_000);
  let world: SubscriptionWorld;
  let facilitator: SmallFacilitator;
  let salted: Address;

  before(async () => {
    world = await startSubscriptionWorld();
    facilitator = await startSmallFacilitator();
    salted = await placeSaltedToken(world.chain.provider, world.contracts.token, world.chain.chainId);
  });
  beforeEach(() => {
    facilitator.supported = SUPPORTED;
  });
  after(async () => {
    await facilitator.stop();
    await world.stop();
  });

  /** @returns why it is not ready, undefined where it is, and the answer to a request without a payment */
  async function start(token: ProviderOptions["token"], more: ProviderOptions = {}) {
    const provider = providerOn(world, facilitator, { token, ...more });
    const server = await FRAMEWORKS.express(provider, [{ path: "/report", gate: { pricing: ONE_TIME } }]);
    try {
      const fault = await provider.ready().then(
        () => undefined,
        (error: Error) => `${error.name}: ${error.message}`,
      );
      return { fault, answer: await send(`${server.url}/report`) };
    } finally {
      await server.stop();
      await provider.close();
    }
  }
  const own = () => ({
    address: world.contracts.token,
    name: world.contracts.tokenName,
    version: world.contracts.tokenVersion,
  });

  it("is ready with the token's own name and version, given or read", async () => {
    for (const token of [own(), world.contracts.token]) {
      const { fault, answer } = await start(token);
      expect(fault).to.equal(undefined);
      expect(answer.status).to.equal(402);
    }
  });

  it("names a wrong name or version and the right ones, and quotes nothing that nobody could sign", async () => {
    const { name, version } = own();
    for (const wrong of [{ name: "USD Coin" }, { version: "2" }, { name: "USD Coin", version: "9" }]) {
      const { fault, answer } = await start({ ...own(), ...wrong });
      expect(fault).to.match(/^ConfigError: .*accepts no signatures under/);
      expect(fault).to.include(`set token.name to "${name}" and token.version to "${version}"`);
      expect(answer.status).to.equal(500);
    }
  });

  it("asks for Permit2, and for no names that do not exist, where a domain has a salt", async () => {
    for (const token of [salted, { address: salted, name: "Test USD", version: "1" }]) {
      const { fault, answer } = await start(token);
      expect(fault).to.match(/^ConfigError: .*Permit2.*transferMethod: "permit2"/);
      expect(fault).to.not.match(/set token\.name|correct token\.name/);
      expect(answer.status).to.equal(500);
    }
  });

  it("sells such a token over Permit2 alone, and advertises no permit of it", async () => {
    facilitator.supported = {
      ...OVER_PERMIT2,
      tokens: [{ address: salted, name: "Test USD", version: "1", decimals: 6 }],
    };
    const { fault, answer } = await start({
      address: salted,
      name: "Test USD",
      version: "1",
      transferMethod: "permit2",
    });
    expect(fault).to.equal(undefined);
    const { accepts, extensions } = requiredIn(answer);
    expect(accepts.map(({ asset, extra }) => [asset, extra.assetTransferMethod])).to.deep.equal([[salted, "permit2"]]);
    expect(extensions).to.not.have.property("eip2612GasSponsoring");
  });

  it("names a token that the Facilitator does not settle, or settles under another domain", async () => {
    const listed = { ...own(), decimals: 6 };
    const tokens = (...each: object[]) => ({ ...SUPPORTED, tokens: each });
    facilitator.supported = tokens({ ...listed, address: salted });
    expect((await start(own())).fault).to.match(/^ConfigError: .*does not settle the token .*TOKENS/);
    const withoutRpc = { rpcUrl: [] as string[], turnpike: undefined as never, clock: undefined as never };
    for (const wrong of [{ name: "USD Coin" }, { version: "2" }]) {
      facilitator.supported = tokens({ ...listed, ...wrong });
      const { fault } = await start(own(), withoutRpc);
      expect(fault).to.match(/^ConfigError: .*under the name .*correct/);
    }
    facilitator.supported = tokens({ ...listed, address: salted }, listed);
    expect((await start(own())).fault).to.equal(undefined);
    facilitator.mode = "down";
    expect((await start(own())).fault, "an outage stops nothing").to.equal(undefined);
    facilitator.mode = "valid";
  });
});
