/**
 * Defines a purchase and the channel on which it reaches its provider, HTTP or MCP: what is bought, how one payment is
 * presented, and how the provider's answer reads. Knows no budget and no key.
 */
import type { SignedReceipt } from "../../protocol";
import type { AgentLedger } from "../ledger/ledger";
import type { PaymentEntry } from "../ledger/ledger-store";
import type { PaymentReceipt } from "./receipt";
import type { SettlementReport } from "./standard";

export interface PurchaseTarget {
  readonly method: string;
  readonly resource: string;
  /** the part of `resource` that may be shown */
  readonly place: string;
  /** how a statement that the provider signs may name `resource` */
  readonly names: readonly string[];
  /** SHA-256 of the request's body, where it has one */
  readonly bodyHash: string | undefined;
  /** whether nothing on the way can read or change what is sent */
  readonly isPrivate: boolean;
  readonly signal: AbortSignal | undefined;
}

/** A request that may be paid for. */
export interface PayJob<R> {
  readonly ledger: AgentLedger;
  readonly target: PurchaseTarget;
  readonly channel: Channel<R>;
  readonly key: string | undefined;
  readonly maxAmount: bigint | undefined;
}

export interface Channel<R> {
  /** Sends the request with the payment, the same bytes every time. @throws when no answer arrives */
  present(entry: PaymentEntry): Promise<Answer<R>>;
}

/** The provider does not accept the payment as it was presented. */
export interface Rejected {
  readonly kind: "rejected";
  readonly error: string | undefined;
  readonly reason: string | undefined;
}

export type Reading =
  /** the provider answered, and the payment is spent on this answer */
  | { readonly kind: "served" }
  /** the provider answered, and the payment is still good for another attempt */
  | { readonly kind: "unserved" }
  | Rejected
  | { readonly kind: "in_flight" }
  | { readonly kind: "later" };

export interface Answer<R> {
  readonly reading: Reading;
  readonly report: SettlementReport;
  /** as it came, unverified; undefined where none came */
  readonly signedReceipt: SignedReceipt | "malformed" | undefined;
  /** how long the provider asks to wait, ms */
  waitMs(fallbackMs: number): number;
  discard(): Promise<void>;
  /** Returns what the caller gets. @throws what the provider answered, where that is an error */
  result(receipt: PaymentReceipt): Promise<R>;
  /** Returns whether the request has succeeded: a provider confirms no failure. */
  isSuccess(result: R): boolean;
}
