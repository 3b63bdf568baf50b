// What payers, the relayer and the operator do in the measurements, on the plan and token of one world.

import { time } from "@nomicfoundation/hardhat-network-helpers";
import { HDNodeWallet, id, Signature } from "ethers";
import { ethers } from "hardhat";
import type { BareLoop } from "../../sdk/src/chain/generated";
import * as c from "../../test/support/contracts";
import { gasOf } from "./figures";

export const PAYERS = 210;
/** Constant, like everything that is signed here: a zero byte more or less in calldata would change the figures. */
const VALID_BEFORE = 2n ** 40n - 1n;
const SUCCESS = "0x00000000";
const AUTHORIZATION = {
  TransferWithAuthorization: [
    { name: "from", type: "address" },
    { name: "to", type: "address" },
    { name: "value", type: "uint256" },
    { name: "validAfter", type: "uint256" },
    { name: "validBefore", type: "uint256" },
    { name: "nonce", type: "bytes32" },
  ],
};

const ROOT = HDNodeWallet.fromSeed(id("turnpike gas bench"));

/** Deterministic test keys: worthless by construction. The first `PAYERS` are those of every world. */
export function payerAt(index: number): HDNodeWallet {
  return ROOT.deriveChild(index).connect(ethers.provider) as HDNodeWallet;
}

let nonces = 0;

/** `PAYERS` wallets with funds that have approved the bare loop, and their acts. */
export async function actsOn(w: c.World, bare: BareLoop) {
  const turnpike = w.turnpike.connect(w.relayer);
  const operator = w.turnpike.connect(w.operator);
  const wallets = Array.from({ length: PAYERS }, (_, i) => payerAt(i));
  const addresses = wallets.map((wallet) => wallet.address);
  const token = await w.token.getAddress();
  for (const wallet of wallets) {
    await w.token.mint(wallet, 1_000n * c.PRICE);
    const { v, r, s, value, deadline } = await c.signPermit(w, wallet, c.FOREVER, { spender: await bare.getAddress() });
    await w.token[c.PERMIT_VRS](wallet, bare, value, deadline, v, r, s);
  }

  const signup = async (wallet: HDNodeWallet, maxOverage: bigint, permitted: boolean) => {
    const secretHash = c.freshSecretHash();
    const message = { subscriber: wallet.address, planId: w.planId, secretHash, maxOverage, deadline: c.FOREVER };
    const signature = await c.sign(w, wallet, "Subscribe", message);
    const permit = permitted ? await c.signPermit(w, wallet, c.FOREVER) : undefined;
    const by = { permit, deadline: c.FOREVER, signature };
    const gas = await gasOf(turnpike.subscribe(...c.signupArgs(wallet, message, by)));
    return { gas, idHash: await turnpike.idHashOf(wallet, secretHash) };
  };

  /** A `transferFrom` of each of the first `count` payers. */
  const loop = (count: number) =>
    gasOf(bare.connect(w.relayer).collect(token, addresses.slice(0, count), w.treasury, c.PRICE));

  const renewAll = async (ids: string[]) => {
    for (let i = 0; i < ids.length; i += 105) await turnpike.renewBatch(ids.slice(i, i + 105));
  };
  /** All have paid the last period, and the next is due. */
  const due = async (ids: string[]) => {
    await renewAll(ids);
    await time.increase(c.INTERVAL);
  };
  /** Renews the first `count`. */
  const renewal = async (ids: string[], count: number) => {
    await due(ids);
    const reasons = await turnpike.renewBatch.staticCall(ids.slice(0, count));
    if (reasons.some((reason) => reason !== SUCCESS)) throw new Error(`a renewal fails: ${reasons.join()}`);
    return gasOf(turnpike.renewBatch(ids.slice(0, count)));
  };

  /** Debits the first `count`. */
  const debits = async (ids: string[], count: number, index: bigint) => {
    const items = ids.slice(0, count).map((idHash) => ({ idHash, amount: c.PRICE, index }));
    const reasons = await operator.debitBatch.staticCall(items);
    if (reasons.some((reason) => reason !== SUCCESS)) throw new Error(`a debit fails: ${reasons.join()}`);
    return gasOf(operator.debitBatch(items));
  };

  const authorize = async (wallet: HDNodeWallet) => {
    nonces += 1;
    const nonce = id(`nonce ${nonces}`);
    const { chainId } = await ethers.provider.getNetwork();
    const message = {
      from: wallet.address,
      to: w.treasury.address,
      value: c.PRICE,
      validAfter: 0n,
      validBefore: VALID_BEFORE,
      nonce,
    };
    const [name, version] = [await w.token.name(), await w.token.version()];
    const domain = { name, version, chainId, verifyingContract: token };
    return { token, ...message, signature: await wallet.signTypedData(domain, AUTHORIZATION, message) };
  };
  /** A signed payment that is sent to the token itself. */
  const payAlone = async (wallet: HDNodeWallet) => {
    const t = await authorize(wallet);
    const { v, r, s } = Signature.from(t.signature);
    const vrs =
      "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)" as const;
    const sender = w.token.connect(w.relayer);
    return gasOf(sender[vrs](t.from, t.to, t.value, t.validAfter, t.validBefore, t.nonce, v, r, s));
  };
  /** Settles a payment of each of the first `count` payers. */
  const settle = async (count: number) => {
    const batch = await Promise.all(wallets.slice(0, count).map(authorize));
    return gasOf(w.settler.connect(w.relayer).settle(batch, 150_000n));
  };

  return { wallets, signup, loop, renewAll, due, renewal, debits, payAlone, settle };
}
