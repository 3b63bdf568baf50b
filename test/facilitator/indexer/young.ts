import { expect } from "chai";
import type { Core } from "../../../facilitator/src/app/core";
import { type FacilitatorWorld, startWorld, until } from "../../support/facilitator";

const MORE_CONFIRMATIONS = 20;

describe("a chain that is shorter than the confirmations asked for", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;

  before(async () => {
    world = await startWorld({ blockMs: undefined });
    const height = await world.chain.provider.getBlockNumber();
    core = await world.core({ CONFIRMATIONS: String(height + MORE_CONFIRMATIONS), RENEWALS: "false" });
  });
  after(() => world?.stop());

  it("sends what it is given, and proves it when it is as deep as asked for, not before", async () => {
    const signed = await world.signPayment();
    const { from } = signed.authorization;
    expect((await core.payments.authorize(signed, { waitMs: 0 })).kind).to.equal("pending");
    const moved = async () => (await world.transfers()).some((transfer) => transfer.from === from);
    await until(moved, "the money has moved");
    expect((await core.payments.authorize(signed, { waitMs: 0 })).kind, "no block is applied").to.equal("pending");
    expect(core.indexer.applied()).to.equal(-1);
    for (let block = 0; block < MORE_CONFIRMATIONS * 2; block++) await world.chain.provider.send("evm_mine", []);
    const outcome = await core.payments.authorize(signed);
    expect(outcome.kind).to.equal("settled");
    expect((await world.transfers()).filter((transfer) => transfer.from === from)).to.have.length(1);
  });
});
