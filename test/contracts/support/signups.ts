// Signups with an end or a voucher, as the subscriber's own call and as its signature that a relayer brings.

import { time } from "@nomicfoundation/hardhat-network-helpers";
import { type Signer, ZeroAddress, ZeroHash } from "ethers";
import type { NextTermsStruct } from "../../../sdk/src/chain/generated/contracts/Turnpike";
import * as c from "../../support/contracts";

/** An end, unix seconds, that no test reaches: the year 3058. */
export const FAR = 2n ** 35n;
/** The last second that a record can hold, in the year 4147. */
export const LAST = 2n ** 36n - 1n;
/** What a `setNext` without a plan shows. */
export const NO_TERMS: NextTermsStruct = {
  token: ZeroAddress,
  payTo: ZeroAddress,
  amount: 0n,
  interval: 0n,
  months: false,
};

export interface VoucherOptions {
  /** Who signs; the plan's provider by default. */
  signer?: Signer;
  /** Base units; 1 by default. */
  firstAmount?: bigint;
  /** Seconds; 0 by default: one regular period. */
  firstInterval?: number;
  deadline?: bigint;
  domain?: Record<string, unknown>;
  /** Fields of the signed message that differ from the signup. */
  signed?: Record<string, unknown>;
}

export interface SignupOptions {
  planId?: string;
  subscriber?: Signer;
  secretHash?: string;
  maxOverage?: bigint;
  until?: bigint | number;
  voucher?: VoucherOptions;
}

async function voucherOf(w: c.World, message: Record<string, unknown>, options: VoucherOptions): Promise<c.Voucher> {
  const { signer = w.provider, firstAmount = 1n, firstInterval = 0, deadline = c.FOREVER } = options;
  const signed = { ...message, firstAmount, firstInterval, deadline, ...options.signed };
  const signature = await c.sign(w, signer, "Voucher", signed, options.domain);
  return { signer: await signer.getAddress(), firstAmount, firstInterval, deadline, signature };
}

/** A signup that can be sent in both forms; each may replace fields of the voucher. Signer zero: none. */
export async function signup(w: c.World, options: SignupOptions = {}) {
  const { planId = w.planId, subscriber = w.subscriber, secretHash = c.freshSecretHash() } = options;
  const { maxOverage = 0n, until = 0n } = options;
  const from = await subscriber.getAddress();
  const names = { planId, subscriber: from, secretHash };
  const voucher = options.voucher ? await voucherOf(w, names, options.voucher) : undefined;
  const said = { planId, secretHash, maxOverage, until };
  const first = voucher && { firstAmount: voucher.firstAmount, firstInterval: voucher.firstInterval };
  const message = { subscriber: from, ...said, ...first, deadline: c.FOREVER };
  const offerOf = (override: Partial<c.Voucher>) => {
    const offer = { ...voucher, ...override } as c.Voucher;
    return offer.signer && offer.signer !== ZeroAddress ? offer : undefined;
  };
  return {
    ...names,
    voucher,
    message,
    idHash: await w.turnpike.idHashOf(from, secretHash),
    direct: (override: Partial<c.Voucher> = {}) =>
      w.turnpike.connect(subscriber).subscribe(...c.signupArgs(from, said, { voucher: offerOf(override) })),
    signed: async (override: Partial<c.Voucher> = {}, bytes?: string) => {
      const signature = bytes ?? (await c.sign(w, subscriber, "Subscribe", message));
      const by = { voucher: offerOf(override), deadline: c.FOREVER, signature };
      return w.turnpike.connect(w.relayer).subscribe(...c.signupArgs(from, said, by));
    },
  };
}

/** `setNext` as the subscriber's own call; 0 and the zero hash: none. */
export async function setNext(w: c.World, idHash: string, until: bigint | number, nextPlanId: string) {
  const shown = nextPlanId === ZeroHash ? NO_TERMS : await c.shownOf(w, nextPlanId);
  return w.turnpike.connect(w.subscriber).setNext(idHash, until, nextPlanId, shown, c.NO_AUTH);
}

/** Unix seconds of a date in UTC; the month counts from 1. */
export function utc(year: number, month: number, day: number, hour = 0, minute = 0, second = 0): number {
  return Date.UTC(year, month - 1, day, hour, minute, second) / 1_000;
}

/** A year without a leap day that the chain's clock has not reached. */
export async function commonYear(): Promise<number> {
  const year = new Date((await time.latest()) * 1_000).getUTCFullYear() + 1;
  return year + (year % 4 === 0 ? 1 : 0);
}
