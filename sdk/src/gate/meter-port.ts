/** What the gate asks of a meter; how it keeps its books and settles them is `metering/`'s matter. */
import type { AllowanceFacts } from "../chain/debit-sender";
import type { Hex } from "../protocol";
import type { UnsettledReport } from "./metering/unsettled";
import type { Deduction } from "./payment";

/** What a gate asks of metering. */
export interface MeterPort {
  /** Opens the journal and resumes what a crash left. */
  start(): Promise<void>;
  /**
   * Sets an amount aside at once.
   * @throws AllowanceExhausted
   */
  reserve(idHash: Hex, amount: bigint, facts: AllowanceFacts): Promise<Deduction>;
  /** base units: cap - spent - reserved */
  remaining(idHash: Hex, facts: AllowanceFacts): bigint;
  /** an earlier debit failed for funds or approval */
  isBlocked(idHash: Hex): boolean;
  /** as much is unsettled as the provider would risk */
  isSaturated(idHash: Hex): boolean;
  /** Throws when nothing can be reserved any more: the journal was lost. */
  requireHealthy?(): void;
  /** What is owed and not final yet, and what was lost. */
  unsettled(): UnsettledReport;
  /** Debits everything owed now, and waits for it. */
  flush(): Promise<void>;
  /** Debits what is owed, and ends. */
  stop(): Promise<void>;
}
