/** What the provider would lose if every subscription were cancelled now, and what it has lost: figures for views. */
import type { Hex } from "../../protocol/hex";
import { hasNews, unsettledOf } from "./books";
import type { MeterStore } from "./store";

/** What one subscription owes beyond what is final on chain; amounts in token base units. */
export interface UnsettledSubscription {
  readonly idHash: Hex;
  /** owed and not yet sent */
  readonly pending: bigint;
  /** in a debit whose outcome is not final */
  readonly inFlight: bigint;
  readonly blocked: "InsufficientFunds" | "InsufficientApproval" | undefined;
  /** owed by a subscription that was cancelled, or whose cap was lowered, before the debit */
  readonly lost: bigint;
}

/** Amounts in token base units; the totals run since the journal began. */
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
    if (!hasNews(account)) continue;
    const owed = unsettledOf(account);
    unsettled += owed;
    const { idHash, blocked, lost } = account;
    const pending = account.pending + account.held;
    subscriptions.push({ idHash, pending, inFlight: owed - pending, blocked, lost });
  }
  return { unsettled, ...store.totals(), subscriptions };
}
