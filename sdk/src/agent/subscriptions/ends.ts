/** Judges by the contract's own rules what a signup or a change can still do: no server's word counts here. */
import type { SubscribeRequestWire } from "../../facilitator/subscriptions";
import { InvalidRequest, TurnpikeError, toAmount, UINT88_MAX } from "../../protocol";
import type { Amount } from "../core/policy-options";

/** A time as errors show it. @param sec unix seconds */
export const isoOf = (sec: number): string => new Date(sec * 1_000).toISOString();

/**
 * Requires an end that the contract accepts now: the contract refuses any other, whenever it is posted.
 * @throws InvalidRequest for one that is not after `nowSec`
 */
export function requireFuture(untilSec: number, nowSec: number): void {
  if (untilSec > nowSec) return;
  throw new InvalidRequest(
    `until: ${untilSec} is not in the future, the chain's time is ${nowSec} (${isoOf(nowSec)}). Nothing was signed. Name a later end, or none.`,
  );
}

/**
 * Reads a cap of metered overage, and refuses one that the contract cannot hold.
 * @param field its name in errors
 */
export function requireCap(value: Amount, field: string): bigint {
  const cap = toAmount(value, field);
  if (cap <= UINT88_MAX) return cap;
  throw new TurnpikeError("CapTooLarge", `${field} is ${cap}: the largest cap is ${UINT88_MAX}. Nothing was signed.`, {
    details: { cap: cap.toString(), max: UINT88_MAX.toString() },
  });
}

/** Returns the last time at which the contract can accept a signup, unix seconds: every term of it still holds then. */
export function lastUsableSec({ deadline, until, voucher }: SubscribeRequestWire): number {
  const lastSecs = [Number(deadline)];
  if (until !== undefined) lastSecs.push(until - 1);
  if (voucher) lastSecs.push(Number(voucher.deadline));
  return Math.min(...lastSecs);
}
