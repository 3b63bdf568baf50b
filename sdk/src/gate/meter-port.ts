/** What the gate asks of a meter; how it keeps its books and settles them is `metering/`'s matter. */
import type { AllowanceFacts } from "../chain/debit-sender";
import type { Hex } from "../protocol";
import type { UnsettledReport } from "./metering/unsettled";
import type { Deduction } from "./payment";

/** What a gate asks of metering. */
export interface MeterPort {
  /**
   * Proves that debits of each of these plans can be collected.
   * @throws ConfigError that names the setting, the problem and the remedy; Unavailable when nobody can tell
   */
  prove(planIds: readonly Hex[]): Promise<void>;
  /**
   * Proves it of at least one of them; of none, that the key itself is accepted.
   * @throws ConfigError, Unavailable
   */
  proveAny(planIds: readonly Hex[]): Promise<void>;
  /** Whether that was proved of this plan, and nothing has contradicted it since. */
  canCollect(planId: Hex): boolean;
  /** New blocks; `topics` are those indexed in Turnpike's logs, undefined when history was rewritten. */
  onBlocks(topics: ReadonlySet<string> | undefined): void;
  /** Opens the journal and resumes what a crash left. */
  start(): Promise<void>;
  /**
   * Sets an amount aside at once.
   * @param newest reads the facts from the chain's newest block, before anything is clipped or refused by `facts`
   * @throws AllowanceExhausted
   */
  reserve(
    idHash: Hex,
    amount: bigint,
    facts: AllowanceFacts,
    newest?: () => Promise<AllowanceFacts>,
  ): Promise<Deduction>;
  /** base units: cap - spent - reserved */
  remaining(idHash: Hex, facts: AllowanceFacts): bigint;
  /** an earlier debit failed for funds or approval */
  isBlocked(idHash: Hex): boolean;
  /** Has it judged again soon: the wallet may hold the money by now. */
  retryBlocked(idHash: Hex): void;
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
