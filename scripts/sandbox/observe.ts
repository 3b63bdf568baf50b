/** Reads the state on chain, and waits until it is as expected. */
import { STATUSES, type SubscriptionStatus } from "turnpike/protocol";
import type { World } from "./world";

export interface ObservedRecord {
  readonly paidThroughSec: number;
  readonly status: SubscriptionStatus | undefined;
}

/** @param idHash the subscription's public name */
export async function recordOf({ lens }: World, idHash: string): Promise<ObservedRecord> {
  const { paidThrough, status } = await lens.getFunction("getSubscription")(idHash);
  return { paidThroughSec: Number(paidThrough), status: STATUSES[Number(status)] };
}

export async function spentOf({ lens }: World, idHash: string): Promise<bigint> {
  return (await lens.getFunction("getAllowance")(idHash)).spent;
}

/** Polls until the condition holds. @throws when it does not hold within `timeoutMs` */
export async function until(what: string, isSo: () => Promise<boolean>, timeoutMs = 20_000): Promise<void> {
  const end = performance.now() + timeoutMs;
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error(`${what} did not come within ${timeoutMs / 1_000} s`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
