// A signup with a voucher and an end, at the largest value of each: none spills into another.

import { time } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";

const MAX_AMOUNT = 2n ** 96n - 1n;
const MAX_INTERVAL = BigInt(366 * c.DAY);
const MAX_UNTIL = 2n ** 40n - 1n;
const LARGEST = { firstAmount: MAX_AMOUNT, firstInterval: MAX_INTERVAL, until: MAX_UNTIL };

async function signUp(w: c.World, { firstAmount, firstInterval, until }: typeof LARGEST) {
  const planId = await c.createPlan(w, { amount: MAX_AMOUNT });
  await w.token.mint(w.subscriber, MAX_AMOUNT);
  const secretHash = c.freshSecretHash();
  const idHash = await w.turnpike.idHashOf(w.subscriber, secretHash);
  const deadline = c.FOREVER;
  const offer = { planId, subscriber: w.subscriber.address, secretHash, firstAmount, firstInterval, deadline };
  const signature = await c.sign(w, w.provider, "Voucher", offer);
  const voucher = { signer: w.provider.address, firstAmount, firstInterval, deadline, signature };
  const signup = { planId, secretHash, maxOverage: c.MAX_CAP, until };
  const send = () =>
    w.turnpike
      .connect(w.subscriber)
      .subscribe(...c.signupArgs(w.subscriber, signup, { voucher, deadline, signature: "0x" }));
  return { idHash, send };
}

describe("subscribe at the ends of its types", () => {
  for (const field of ["firstAmount", "firstInterval", "until"] as const) {
    for (const others of ["largest", "least"] as const) {
      it(`keeps the largest ${field} beside ${others} others`, async () => {
        const w = await loadFixture(c.world);
        const rest = others === "largest" ? LARGEST : { firstAmount: 0n, firstInterval: 1n, until: 0n };
        const terms = { ...rest, [field]: LARGEST[field] };
        const { idHash, send } = await signUp(w, terms);
        await expect(send).to.changeTokenBalance(w.token, w.treasury, terms.firstAmount);
        const { paidThrough, until, intro, subscriber } = await w.lens.getSubscription(idHash);
        expect([paidThrough, until, intro, subscriber]).to.deep.equal([
          BigInt(await time.latest()) + terms.firstInterval,
          terms.until,
          true,
          w.subscriber.address,
        ]);
      });
    }
  }
});
