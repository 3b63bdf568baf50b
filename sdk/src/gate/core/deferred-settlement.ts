/** Describes a payment that settles once its handler has answered: what an adapter does with it. */
import type { TurnpikeError } from "../../protocol";
import type { KeptAnswer } from "../replay/fit";
import type { PaymentReport } from "./payment";
import type { Refusal } from "./quote";

/** The largest answer that is withheld until its payment has settled, bytes; a longer one settles first. */
export const MAX_WITHHELD_BYTES = 1_024 * 1_024;

/** How long a body may take after its first part, milliseconds; one that takes longer is a stream, and settles first. */
export const MAX_WITHHELD_MS = 5_000;

/** What became of a settlement that followed its handler. */
export type DeferredOutcome =
  /** report: receipts, which the answer carries */
  | { readonly kind: "settled"; readonly report: PaymentReport }
  /** nothing was charged by this request: the answer must not leave */
  | { readonly kind: "refused"; readonly refusal: Refusal }
  /** the handler charged what cannot be charged: nothing was, and the answer must not leave */
  | { readonly kind: "failed"; readonly cause: TurnpikeError }
  /** the outcome is unknown, or could not be recorded: the answer must not leave */
  | { readonly kind: "unavailable"; readonly cause: TurnpikeError };

/** One payment that is claimed and reserved, while its handler runs. The first call of any method decides. */
export interface DeferredSettlement {
  /** Returns whether the route charges for an answer of this status, which is no failure. */
  chargesFor(status: number): boolean;
  /**
   * Stores the answer, settles, then uses the payment up.
   * @param answer whole; undefined for a stream, which settles before its first byte leaves
   */
  settle(answer: KeptAnswer | undefined): Promise<DeferredOutcome>;
  /** Releases the payment because its handler failed: nothing is charged, and the run counts. */
  cancel(): Promise<void>;
  /** Releases the payment because no handler ran. */
  withdraw(): Promise<void>;
  /** Stores the answer for the same payment's next request, because its client has left. Charges nothing now. */
  shelve(answer: KeptAnswer | undefined): Promise<void>;
}
