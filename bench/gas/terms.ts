// What the terms beyond a fixed price for a fixed time cost those that use them, beside the plain figures.

import { time } from "@nomicfoundation/hardhat-network-helpers";
import * as c from "../../test/support/contracts";
import { gasOf, record } from "./figures";

/** How dear a date is depends on the date. */
const FIRST_DAY = Date.UTC(2040, 0, 15, 12) / 1_000;
/** Constant, and later than all that happens here. */
const UNTIL = 2n ** 36n - 1n;

/** Moves time to 2040. */
export async function measureTerms(w: c.World): Promise<void> {
  await time.increaseTo(FIRST_DAY);
  const { subscriber, planId } = w;
  const turnpike = w.turnpike.connect(subscriber);
  const renewal = async (idHash: string) => {
    await time.increaseTo(await c.paidThroughOf(w, idHash));
    return gasOf(w.turnpike.connect(w.relayer).renew(idHash));
  };

  const monthly = await c.createPlan(w, { months: true, interval: 1 });
  record("month.renewal.gas", await renewal((await c.subscribe(w, { planId: monthly })).idHash));

  const limited = { planId, secretHash: c.freshSecretHash(), maxOverage: 0n, until: UNTIL };
  record("signup.until.gas", await gasOf(turnpike.subscribe(...c.signupArgs(subscriber, limited))));
  record("limited.renewal.gas", await renewal(await turnpike.idHashOf(subscriber, limited.secretHash)));

  const dearer = await c.createPlan(w, { amount: 2n * c.PRICE });
  const changed = await c.subscribe(w);
  await turnpike.setNext(changed.idHash, 0n, dearer, await c.shownOf(w, dearer), c.NO_AUTH);
  record("change.renewal.gas", await renewal(changed.idHash));

  const secretHash = c.freshSecretHash();
  const terms = { firstAmount: 1n, firstInterval: BigInt(14 * c.DAY) };
  const offer = { planId, subscriber: subscriber.address, secretHash, ...terms, deadline: c.FOREVER };
  const voucher = {
    signer: w.provider.address,
    ...terms,
    deadline: c.FOREVER,
    signature: await c.sign(w, w.provider, "Voucher", offer),
  };
  const signature = await c.sign(w, subscriber, "Subscribe", { ...offer, maxOverage: 0n });
  const signup = { planId, secretHash, maxOverage: 0n, until: 0n };
  const sent = w.turnpike.connect(w.relayer);
  record(
    "signup.voucher.gas",
    await gasOf(sent.subscribe(...c.signupArgs(subscriber, signup, { voucher, deadline: c.FOREVER, signature }))),
  );
}
