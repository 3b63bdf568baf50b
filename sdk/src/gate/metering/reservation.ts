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

/**
 * Asks for at least `amount`, which is clipped to what remains unless others hold some of the cap, and `ahead` beyond
 * it: of what remains at most a quarter, so that near the cap one answer does not keep what the others need.
 */
export interface HoldRequest extends ReserveRequest {
  /** new for each hold */
  readonly name: Hex;
  readonly ahead: bigint;
}

export interface HoldCharge {
  readonly idHash: Hex;
  readonly name: Hex;
  /** base units of the hold that were used, since it began */
  readonly total: bigint;
  /** whether to release the rest of it */
  readonly release: boolean;
  /** that it was held by */
  readonly facts: AllowanceFacts;
  /** whether to number a receipt for what is newly used; default false */
  readonly isReceipted?: boolean;
}

/** What a hold has charged; base units. */
export interface HeldCharge {
  /** since the hold began; 0 for one that is gone */
  readonly charged: bigint;
  /** by this charge: 0 for one that is repeated */
  readonly added: bigint;
  /** the number of its receipt, and the sum with it */
  readonly receipt?: ReceiptCount | undefined;
}

export const GONE: HeldCharge = { charged: 0n, added: 0n };

/** @param untilMs when others may release the hold; undefined: never */
export function holdAhead(account: MeteredAccount, request: HoldRequest, untilMs?: number): Reserved {
  const { name, ahead, facts, maxUnsettled } = request;
  // An attempt whose answer was lost is replaced.
  account.holds = account.holds.filter((hold) => hold.name !== name);
  const decision = decideReservation(account, request);
  if (decision.kind !== "reserved") return decision;
  const { charged: needed, remaining } = decision;
  // Not the cap's end: others may release what they hold.
  if (needed < request.amount && isHeldByOthers(account, request.own)) return { kind: "contended" };
  const extra = smallest(ahead, remaining / 4n, maxUnsettled - unsettledOf(account) - needed);
  account.holds.push({ name, amount: needed + extra, charged: 0n, untilMs });
  account.seenBlock = Math.max(account.seenBlock, facts.blockNumber);
  return { kind: "reserved", charged: needed + extra, remaining: remaining - extra };
}

/**
 * Takes what was used out of a hold; the caller makes it pending.
 * @returns `added`: base units newly used; `charged`: since the hold began. undefined for a hold that is gone
 */
export function chargeHold(
  account: MeteredAccount,
  { name, total, release }: HoldCharge,
  untilMs?: number,
): HeldCharge | undefined {
  const hold = account.holds.find((other) => other.name === name);
  if (hold === undefined) return undefined;
  const used = smallest(total - hold.charged, hold.amount);
  const [charged, amount] = [hold.charged + used, hold.amount - used];
  const others = account.holds.filter((other) => other !== hold);
  account.holds = release ? others : [...others, { name, amount, charged, untilMs }];
  return { added: used, charged };
}

/** Releases the holds of gates that have not renewed them in time. @returns whether there were any */
export function releaseExpired(account: MeteredAccount, nowMs: number): boolean {
  const live = account.holds.filter(({ untilMs }) => untilMs === undefined || untilMs > nowMs);
  const isChanged = live.length < account.holds.length;
  account.holds = live;
  return isChanged;
}

/** Returns the smallest amount, at least 0. */
export function smallest(...amounts: readonly bigint[]): bigint {
  let least = amounts[0] ?? 0n;
  for (const amount of amounts) if (amount < least) least = amount;
  return least > 0n ? least : 0n;
}
