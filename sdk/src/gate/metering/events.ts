/** What a meter tells its owner: for logs, metrics and alerts. Only public names: an idHash, never a subscription id. */
import type { ErrorCode } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import type { BlockReason, LossReason } from "./books";

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
  /** a settled transaction was reorganised away and is sent again */
  | { readonly kind: "reorganised"; readonly batch: number }
  /** the chain, the Facilitator or the disk failed; the meter goes on trying */
  | { readonly kind: "trouble"; readonly error: unknown };

export type MeterReport = (event: MeterEvent) => void;
