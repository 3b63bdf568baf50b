/** Decides what may be reserved in an account: under its cap, and under what may be unsettled. Pure. */
import type { AllowanceFacts } from "../../chain/debit-sender";
import { isTurnpikeError, Unavailable } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import { isFundsReason, type MeteredAccount, remainingOf, unsettledOf } from "./books";
import type { ReceiptCount } from "./receipt-count";

export interface ReserveRequest {
  readonly idHash: Hex;
  /** base units, > 0 */
  readonly amount: bigint;
  readonly facts: AllowanceFacts;
  /** false: where less remains than the amount, answer `short`, since the facts may be old; default true */
  readonly mayClip?: boolean;
  /** base units; reserving never brings what is unsettled above it, a single larger call on an empty account aside */
  readonly maxUnsettled: bigint;
  /** whether to number a receipt for the charge; default false */
  readonly isReceipted?: boolean;
  /** holds of the same answer */
  readonly own?: readonly Hex[];
}

export type Reserved =
  | {
      readonly kind: "reserved";
      readonly charged: bigint;
      readonly remaining: bigint;
      /** the number of its receipt, and the sum with it */
      readonly receipt?: ReceiptCount | undefined;
    }
  | { readonly kind: "exhausted" }
  /** running answers hold what is left of the cap, and may release it: retry */
  | { readonly kind: "contended" }
  /** less remains than was asked for: ask again with the chain's newest facts */
  | { readonly kind: "short" }
  | { readonly kind: "blocked" }
  /** maxUnsettled is reached: retry when debits are final */
  | { readonly kind: "saturated" };

/** Returns whether running answers hold some of the cap. @param own holds to leave out */
export function isHeldByOthers(account: Readonly<MeteredAccount> | undefined, own: readonly Hex[] = []): boolean {
  return account?.holds.some(({ name, amount }) => amount > 0n && !own.includes(name)) ?? false;
}

/** Decides a reservation. A cost above the remainder is clipped to it and served; an empty remainder is a refusal. */
export function decideReservation(account: MeteredAccount | undefined, request: ReserveRequest): Reserved {
  if (isFundsReason(account?.blocked)) return { kind: "blocked" };
  const remaining = remainingOf(account, request.facts);
  if (request.mayClip === false && request.amount > remaining) return { kind: "short" };
  if (remaining === 0n) return { kind: isHeldByOthers(account, request.own) ? "contended" : "exhausted" };
  const isClipped = request.amount > remaining;
  const charged = isClipped ? remaining : request.amount;
  const unsettled = account === undefined ? 0n : unsettledOf(account);
  if (unsettled > 0n && unsettled + charged > request.maxUnsettled) return { kind: "saturated" };
  return { kind: "reserved", charged, remaining: remaining - charged };
}

const HELD_BY_OTHERS = "cap_reserved";

/** The refusal of what is `contended`. */
export function heldByOthers(): Unavailable {
  return new Unavailable("Answers that are running have reserved the rest of this subscription's cap.", {
    reason: HELD_BY_OTHERS,
    retryAfterSec: 5,
  });
}

/** Returns whether nothing more of the cap can be reserved now. */
export function isOutOfCap(error: unknown): boolean {
  if (!isTurnpikeError(error)) return false;
  return error.code === "AllowanceExhausted" || error.reason === HELD_BY_OTHERS;
}
