// What the logs say about a record, for programs that rebuild it from them.

import { expect } from "chai";
import { type ContractTransactionResponse, ZeroHash } from "ethers";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { NO_TERMS } from "./support/signups";

const UNTIL = 4_000_000_000;

/** A direct signup by a voucher for nothing, so that no transfer is among the logs. */
async function freeSignup(w: c.World, until: number) {
  const secretHash = c.freshSecretHash();
  const signup = { planId: w.planId, secretHash, maxOverage: 0n, until };
  const offer = { firstAmount: 0n, firstInterval: 0n, deadline: c.FOREVER };
  const message = { planId: w.planId, subscriber: w.subscriber.address, secretHash, ...offer };
  const voucher = {
    signer: w.provider.address,
    ...offer,
    signature: await c.sign(w, w.provider, "Voucher", message),
  };
  const sent = await w.turnpike.subscribe.populateTransaction(...c.signupArgs(w.subscriber, signup, { voucher }));
  return { idHash: await w.turnpike.idHashOf(w.subscriber, secretHash), call: sent.data };
}

async function namesOf(w: c.World, sent: ContractTransactionResponse): Promise<string[]> {
  const receipt = c.present(await sent.wait());
  return receipt.logs.map((log) => c.present(w.turnpike.interface.parseLog(log)).name);
}

describe("Events", () => {
  it("L22 differ between a signup with an end and a signup followed by setNext in one transaction", async () => {
    const w = await loadFixture(c.world);
    const own = w.turnpike.connect(w.subscriber);
    const atOnce = await freeSignup(w, UNTIL);
    const inTwo = await freeSignup(w, 0);
    const setNext = own.interface.encodeFunctionData("setNext", [inTwo.idHash, UNTIL, ZeroHash, NO_TERMS, c.NO_AUTH]);

    const names = await namesOf(w, await own.multicall([atOnce.call]));
    const namesInTwo = await namesOf(w, await own.multicall([inTwo.call, setNext]));

    expect(names).to.deep.equal(["VoucherUsed", "NextSet", "Subscribed"]);
    expect(namesInTwo).to.deep.equal(["VoucherUsed", "Subscribed", "NextSet"]);
    expect((await w.lens.getSubscription(atOnce.idHash)).version).to.equal(0n);
    expect((await w.lens.getSubscription(inTwo.idHash)).version).to.equal(1n);
  });
});
