/** Applies blocks to the rows of payments, and keeps the rows of the last block for the requests that wait for them. */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Logger } from "pino";
import type { Hex } from "turnpike/protocol";
import type { ChainReader } from "../chain/chain-reader";
import type { ChainFact } from "../chain/facts";
import type { Store, Tx } from "../db/open";
import type { PaymentRow } from "../db/tables/payments";
import type { BlockChange, BlockInput, BlockProjection, BlockReversal, RevertedBlock } from "../events/projection";
import type { Failpoint } from "../telemetry/failpoints";
import { factsOfPayments, hasLivePayment, loadPayments, revertPayments, savePayments } from "./block-rows";
import { findExpired } from "./expired";
import { paymentRules } from "./projection";
import { RefundRecords } from "./refund-records";
import { PaymentStages } from "./stages";

export interface PaymentProjectionOptions {
  readonly store: Store;
  readonly chainId: number;
  readonly log: Logger;
  readonly onStep: Failpoint;
  /** absent: made of `log` */
  readonly stages?: PaymentStages;
}

/** Waking a thousand callers in one turn, each of which issues a proof, would delay the next transactions. */
const WOKEN_AT_ONCE = 100;

export class PaymentProjection implements BlockProjection {
  readonly #options: PaymentProjectionOptions;
  readonly #stages: PaymentStages;
  #lastBlockPayments: ReadonlyMap<string, PaymentRow> = new Map();
  #writes = 0;
  #beforeSave: (payments: readonly PaymentRow[]) => void = () => undefined;

  constructor(options: PaymentProjectionOptions) {
    this.#options = options;
    this.#stages = options.stages ?? new PaymentStages(options);
  }

  /** Returns how many blocks this process has written. Counts up. */
  writes(): number {
    return this.#writes;
  }

  /**
   * Returns a payment that the last applied block settled, if this process wrote that block since: a caller that waited
   * for it needs no query. Another process may have reverted an earlier block.
   * @param since what `writes` was when the caller last read the payment's row
   */
  settledInLastBlock(paymentId: string, since: number): PaymentRow | undefined {
    const row = this.#writes > since ? this.#lastBlockPayments.get(paymentId) : undefined;
    return row?.state === "settled" ? row : undefined;
  }

  /**
   * Sets the listener that gets the payments of a block just before they are written, to prepare what their callers will
   * need. The write may still fail: the listener must not publish them.
   */
  onBeforeSave(listener: (payments: readonly PaymentRow[]) => void): void {
    this.#beforeSave = listener;
  }

  concerning(facts: readonly ChainFact[]): Promise<readonly ChainFact[]> {
    const { store, chainId } = this.#options;
    return factsOfPayments(store.db, chainId, facts);
  }

  isWaiting(): Promise<boolean> {
    const { store, chainId } = this.#options;
    return hasLivePayment(store.db, chainId);
  }

  findExpired(chain: ChainReader, finalBlock: number): Promise<readonly Hex[]> {
    return findExpired({ ...this.#options, chain }, finalBlock);
  }

  async load(tx: Tx, input: BlockInput): Promise<BlockChange> {
    const rows = await loadPayments(tx, input);
    const refunds = await RefundRecords.load(tx, this.#options.chainId, rows.all());
    let changed: readonly PaymentRow[] = [];
    return {
      ...paymentRules(input, { payments: rows, refunds }),
      save: async (same) => {
        changed = rows.changes().flatMap(({ after }) => (after ? [after] : []));
        this.#beforeSave(changed);
        await savePayments(same, this.#options.chainId, changed);
      },
      committed: () => this.#committed(changed, refunds),
    };
  }

  #committed(payments: readonly PaymentRow[], refunds: RefundRecords): void {
    this.#lastBlockPayments = new Map(payments.map((row) => [row.payment_id, row]));
    this.#writes += 1;
    if (payments.length > 0) this.#options.onStep("applied");
    void this.#notify(payments);
    this.#stages.decided(payments, refunds);
  }

  async #notify(payments: readonly PaymentRow[]): Promise<void> {
    const { notifier } = this.#options.store;
    for (let start = 0; start < payments.length; start += WOKEN_AT_ONCE) {
      if (start > 0) await nextTurn();
      for (const { payment_id: id } of payments.slice(start, start + WOKEN_AT_ONCE)) notifier.notify(`payment:${id}`);
    }
  }

  async revert(tx: Tx, block: RevertedBlock): Promise<BlockReversal> {
    const { store, chainId } = this.#options;
    const { rows, refunds, events } = await revertPayments(tx, chainId, block);
    const committed = (): void => {
      this.#stages.reversed(rows, refunds);
      for (const { payment_id: id } of rows) store.notifier.notify(`payment:${id}`);
      store.notifier.notify("payments");
    };
    return { events, committed };
  }

  tipMoved(): void {
    this.#lastBlockPayments = new Map();
  }
}
