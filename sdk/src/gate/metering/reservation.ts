/** The one decision a reservation takes, pure: how much of a call's cost an account and a view of the chain allow. */
import { type Account, remainingOf, unsettledOf } from "./books";
import type { Reserved, ReserveRequest } from "./store";

/** Costs above what remains are clipped to it and served; only nothing at all is a refusal. */
export function decideReservation(account: Account | undefined, request: ReserveRequest): Reserved {
  if (account?.blocked) return { kind: "blocked" };
  const remaining = remainingOf(account, request.facts);
  if (request.mayClip === false && request.amount > remaining) return { kind: "short" };
  if (remaining === 0n) return { kind: "exhausted" };
  const isClipped = request.amount > remaining;
  const charged = isClipped ? remaining : request.amount;
  const unsettled = account === undefined ? 0n : unsettledOf(account);
  if (unsettled > 0n && unsettled + charged > request.maxUnsettled) return { kind: "saturated" };
  return { kind: "reserved", charged, remaining: remaining - charged };
}
