// The same on the shape of USDC: ProxiedDollar costs what FiatTokenV2_2 behind its proxy costs.

import type { HDNodeWallet } from "ethers";
import type { BareLoop, TestToken } from "../../sdk/src/chain/generated";
import * as c from "../../test/support/contracts";
import { deployDollar } from "../../test/support/dollar";
import { actsOn, PAYERS, payerAt } from "./acts";
import { gasOf, record } from "./figures";

/** Has funds, and has never signed a permit. */
async function funded(token: TestToken): Promise<HDNodeWallet> {
  const wallet = payerAt(PAYERS);
  await token.mint(wallet, c.PRICE * 2n);
  return wallet;
}

/** @param world of which the dollar takes the token's place */
export async function measureUsdc(world: c.World, bare: BareLoop): Promise<void> {
  // All that is called here, both tokens have.
  const token = (await deployDollar("USD Coin")) as unknown as TestToken;
  const planId = await c.createPlan({ ...world, token });
  const w = { ...world, token, planId };
  await w.turnpike.connect(w.provider).setOperator(planId, w.operator, c.Right.DEBIT);
  await token.mint(w.subscriber, 1_000n * c.PRICE);
  await token.mint(w.treasury, 1n);
  await token.connect(w.subscriber).approve(w.relayer, c.FOREVER);
  await token.connect(w.subscriber).approve(w.turnpike, c.FOREVER);

  record(
    "usdc.transferFrom.gas",
    await gasOf(token.connect(w.relayer).transferFrom(w.subscriber, w.treasury, c.PRICE)),
  );
  const { wallets, signup, loop, due, renewAll, renewal, debits, payAlone, settle } = await actsOn(w, bare);
  const payer = c.present(wallets[0]);
  record("usdc.bareLoop100.gas", (await loop(100)) / 100);
  record("usdc.transferWithAuthorization.gas", await payAlone(payer));
  record("usdc.settle.batch100.gas", (await settle(100)) / 100, 49_370);

  const newcomer = await funded(token);
  record("usdc.signup.gas", (await signup(newcomer, 0n, true)).gas, 158_000);
  const subscriber = w.turnpike.connect(w.subscriber);
  record(
    "usdc.signup.second.gas",
    await gasOf(subscriber.subscribe(...c.signupArgs(w.subscriber, { planId, secretHash: c.freshSecretHash() }))),
    92_500,
  );

  const ids: string[] = [];
  for (const wallet of wallets.slice(0, 105)) ids.push((await signup(wallet, c.MAX_CAP, true)).idHash);
  await due(ids);
  record("usdc.renewal.single.gas", await gasOf(w.turnpike.connect(w.relayer).renew(c.present(ids[0]))), 67_900);
  record("usdc.renewal.batch100.gas", (await renewal(ids, 100)) / 100, 25_300);
  await due(ids);
  await renewAll(ids);
  await debits(ids, 100, 0n);
  record("usdc.debit.batch100.gas", (await debits(ids, 100, 1n)) / 100, 28_500);
}
