/** Reports what the provider would lose if every subscription were cancelled now, and what it has lost. */
import type { ErrorCode } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import { type BlockReason, hasBalance, heldOf, type LossReason, unsettledOf } from "./books";
import type { MeterStore } from "./store";

/** One thing that happened to a subscription's debits, or to the meter itself; amounts in token base units. */
export type MeterEvent =
  | { readonly kind: "settled"; readonly idHash: Hex; readonly amount: bigint; readonly transaction: Hex | undefined }
  | { readonly kind: "blocked"; readonly idHash: Hex; readonly reason: BlockReason }
  | { readonly kind: "unblocked"; readonly idHash: Hex }
  | { readonly kind: "postponed"; readonly idHash: Hex; readonly reason: ErrorCode }
  | { readonly kind: "lost"; readonly idHash: Hex; readonly amount: bigint; readonly reason: LossReason }
  | { readonly kind: "rekeyed"; readonly idHash: Hex; readonly to: Hex }
  /** debits of this plan cannot be collected: metered requests are answered 503 until it is `collectable` again */
  | { readonly kind: "uncollectable"; readonly planId: Hex; readonly reason: ErrorCode; readonly message: string }
  | { readonly kind: "collectable"; readonly planId: Hex }
  /**
   * an upstream's answer stated no usage, or none that can be read: it was refused, or a stream was charged by its chunks,
   * the least that it can have used
   */
  | { readonly kind: "unstated"; readonly idHash: Hex; readonly basis: UnstatedBasis }
  /** a settled transaction was reorganised away and is sent again */
  | { readonly kind: "reorganised"; readonly batch: number }
  /** the chain, the Facilitator or the disk failed; the meter keeps retrying */
  | { readonly kind: "trouble"; readonly error: unknown };

/** What is known of an answer whose usage was not stated: its chunks of content, or nothing that can be read. */
export type UnstatedBasis = "chunks" | "unreadable";

export type MeterReport = (event: MeterEvent) => void;

/** What one subscription owes beyond what is final on chain; amounts in token base units. */
export interface UnsettledSubscription {
  readonly idHash: Hex;
  /** owed and not yet sent */
  readonly pending: bigint;
  /** in a debit whose outcome is not final */
  readonly inFlight: bigint;
  readonly blocked: BlockReason | undefined;
  /** owed by a subscription that was cancelled, or whose cap was lowered, before the debit */
  readonly lost: bigint;
}

/** Amounts in token base units; the totals run since the books began. */
export interface UnsettledReport {
  readonly unsettled: bigint;
  readonly charged: bigint;
  readonly settled: bigint;
  readonly lost: bigint;
  readonly subscriptions: readonly UnsettledSubscription[];
}

export function unsettledReport(store: MeterStore): UnsettledReport {
  const subscriptions: UnsettledSubscription[] = [];
  let unsettled = 0n;
  for (const account of store.everyAccount()) {
    if (!hasBalance(account)) continue;
    const owed = unsettledOf(account);
    unsettled += owed;
    const { idHash, blocked, lost } = account;
    const pending = account.pending + heldOf(account);
    subscriptions.push({ idHash, pending, inFlight: owed - pending, blocked, lost });
  }
  return { unsettled, ...store.totals(), subscriptions };
}
