/** Decides how far the chain has confirmed a payment: deep enough to prove, final, or on a block that may be reverted. */
import { type Address, Unavailable } from "turnpike/protocol";
import { type FacilitatorConfig, findToken } from "../config";
import type { PaymentRow } from "../db/tables/payments";
import type { Indexer } from "../indexer";

export class SettlementDepth {
  readonly #config: FacilitatorConfig;
  readonly #indexer: Indexer;

  constructor(config: FacilitatorConfig, indexer: Indexer) {
    this.#config = config;
    this.#indexer = indexer;
  }

  /**
   * Returns whether the chain still has the payment's block, with the confirmations that its amount requires. Of a token
   * that is served no more, any amount may be large.
   */
  isDeepEnough(row: Pick<PaymentRow, "token" | "amount" | "block_number">): boolean {
    if (row.block_number !== null && row.block_number > this.#indexer.keptTo()) return false;
    const token = findToken(this.#config, row.token as Address);
    const isLarge = token === undefined || BigInt(row.amount) >= token.largeAmount;
    if (!isLarge) return true;
    const height = this.#height();
    return height - (row.block_number ?? height) + 1 >= this.#config.largeConfirmations;
  }

  isFinal(blockNumber: number): boolean {
    return this.#height() - blockNumber >= this.#config.finalityDepth;
  }

  /**
   * Returns whether a failed payment can never move money, even if the newest blocks are reverted. A failure that a log
   * proves is final only when its block is: the block may be reverted, and the money may move then.
   */
  isFinalFailure(row: PaymentRow): boolean {
    return row.fail_reason === "expired" || row.block_number === null || this.isFinal(row.block_number);
  }

  /** @throws Unavailable while it is unknown whether the block stays on the chain */
  requireKept(blockNumber: number | null): void {
    if (blockNumber === null || blockNumber <= this.#indexer.keptTo()) return;
    throw new Unavailable("the chain's head moved back: it is not known yet whether this payment stays on the chain", {
      retryAfterSec: 2,
    });
  }

  /** Blocks that were reverted since do not count. */
  #height(): number {
    const indexer = this.#indexer;
    return Math.min(indexer.head()?.number ?? indexer.applied(), indexer.keptTo());
  }
}
