import { loadFixture } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import * as c from "../support/contracts";

describe("Turnpike", () => {
  it("charges at signup, renews when due, debits up to the cap and ends", async () => {
    const w = await loadFixture(c.world);
    const s = await c.subscribe(w, { maxOverage: 500n });
    expect(await w.token.balanceOf(w.treasury)).to.equal(c.PRICE);
    await expect(w.turnpike.connect(w.operator).debit(s.idHash, 500n, 0n)).to.emit(w.turnpike, "Debited");
    await expect(c.at(s.paidThrough, () => w.turnpike.connect(w.stranger).renew(s.idHash)))
      .to.emit(w.turnpike, "Renewed")
      .withArgs(s.idHash, s.paidThrough + c.INTERVAL);
    await w.turnpike.connect(w.subscriber).cancel(s.idHash, false);
    expect(await w.turnpike.statusOf(s.idHash)).to.equal(c.Status.CANCELLED);
    expect(await w.token.balanceOf(w.treasury)).to.equal(2n * c.PRICE + 500n);
  });
});
