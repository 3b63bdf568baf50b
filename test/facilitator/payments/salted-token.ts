/** A token that payers cannot sign for is settled over Permit2 alone. */
import { expect } from "chai";
import { Contract } from "ethers";
import type { Address } from "turnpike/protocol";
import { placePermit2 } from "../../../scripts/sandbox/permit2";
import { fund, walletOf } from "../../support/facilitator";
import { signPermit2 } from "../../support/permit2";
import { placeSaltedToken } from "../../support/salted-token";
import { settleBody } from "../support/payments";
import { type ServiceWorld, startServiceWorld } from "../support/service";

const PERMIT2 = "0x000000000022D473030F116dDEE9F6B43aC78BA3";

describe("Facilitator: a token with a salt in its signing domain", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  let salted: Address;
  let TOKENS: string;

  before(async () => {
    world = await startServiceWorld();
    await placePermit2(world.chain);
    const { token, tokenName: name, tokenVersion: version } = world.contracts;
    salted = await placeSaltedToken(world.chain.provider, token, world.chain.chainId);
    TOKENS = JSON.stringify([
      { address: token, name, version },
      { address: salted, name: "Test USD", version: "1" },
    ]);
  });
  after(() => world?.stop());

  it("stops the start where Permit2 is off, with a remedy that can be followed", async () => {
    const why = await world.service({ TOKENS }).then(
      () => "it started",
      (error: Error) => error.message,
    );
    expect(why).to.match(/salt.*set PERMIT2=true.*or remove it from TOKENS/);
    expect(why).to.not.match(/set name and version/);
  });

  it("starts with PERMIT2=true, settles it over Permit2, and sends no transfer that the token would refuse", async () => {
    const service = await world.service({ TOKENS, PERMIT2: "true", RENEWALS: "false" });
    const payer = await world.payer();
    await fund(world.chain, payer.address);
    const wallet = walletOf(world.chain, payer.key);
    const calls = ["function mint(address,uint256)", "function approve(address,uint256) returns (bool)"];
    const token = new Contract(salted, calls, wallet);
    await (await token.getFunction("mint")(payer.address, 1_000_000n)).wait();
    await (await token.getFunction("approve")(PERMIT2, 1_000_000n)).wait();

    const request = settleBody(await world.signExact({ payer, token: salted }), 2, world.chain.chainId);
    const sent = await world.chain.provider.getTransactionCount(payer.address);
    for (const answer of [await service.client.x402Verify(request), await service.client.x402Settle(request)]) {
      expect(JSON.stringify(answer)).to.include("unsupported_payload_type");
    }
    const over = await signPermit2(world, { payer, token: salted, required: { asset: salted } });
    expect(await service.client.x402Settle(over)).to.include({ success: true });
    expect(await world.chain.provider.getTransactionCount(payer.address)).to.equal(sent);
    const own = settleBody(await world.signExact(), 2, world.chain.chainId);
    expect(await service.client.x402Settle(own), "the other token, as ever").to.include({ success: true });
  });
});
