/** Sends the queue at the pace of the chain, and retries payments that were sent and did not move. */
import type { Logger } from "pino";
import type { Clock } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import type { PaymentRow } from "../db/tables/payments";
import type { EventFeed } from "../events/feed";
import type { Party } from "../lib/fair-shares";
import { repeat, type Worker } from "../lib/loop";
import type { Relayer } from "../relayer";
import type { Failpoint } from "../telemetry/failpoints";
import { createFaultLog, type FaultLog } from "../telemetry/fault-log";
import { WALLET_EXTRA_GAS } from "./batch";
import { type BatchBuilder, createBatchBuilder, paceMsOf } from "./batch-builder";
import { createFailedSpendLimiter, type FailedSpendLimiter } from "./failed-spends";
import { createPayerGasLimiter, type PayerGasLimiter } from "./payer-gas";
import { type Backlog, PaymentQueue } from "./queue";
import { QueueShares } from "./queue-shares";
import type { Reservations } from "./reservations";
import { UnmovedPayments } from "./unmoved";
import { WalletDeployments } from "./wallet-deployments";

export interface SenderOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly feed: EventFeed;
  readonly relayer: Relayer;
  readonly reservations: Pick<Reservations, "deleteEnded">;
  readonly clock: Clock;
  readonly applied: () => number;
  readonly untilNextBlockMs: () => number;
  readonly log: Logger;
  readonly onStep: Failpoint;
  readonly monotonicMs: () => number;
}

export class Sender {
  readonly failedSpends: FailedSpendLimiter;
  readonly payerGas: PayerGasLimiter;
  readonly deployments: WalletDeployments;
  /** for payments that need not queue */
  readonly batches: BatchBuilder;
  readonly #options: SenderOptions;
  readonly #queue: PaymentQueue;
  readonly #shares: QueueShares;
  readonly #unmoved: UnmovedPayments;
  readonly #faults: FaultLog;
  readonly #loop: Worker;

  constructor(options: SenderOptions) {
    const { config, store, relayer, clock, log, monotonicMs } = options;
    this.#options = options;
    const failedSpends = createFailedSpendLimiter({
      db: store.db,
      chainId: config.chainId,
      perPayer: config.maxLossesPerPayer,
      perPayee: config.maxLossesPerPayee,
      monotonicMs,
    });
    this.payerGas = createPayerGasLimiter({
      db: store.db,
      chainId: config.chainId,
      perPayer: config.maxGasPerPayer,
      perPayment: config.gasPerItem + WALLET_EXTRA_GAS,
      monotonicMs,
    });
    const queue = new PaymentQueue(options);
    this.failedSpends = failedSpends;
    this.deployments = new WalletDeployments({ config, store, relayer, failedSpends });
    this.#queue = queue;
    this.#shares = new QueueShares(options);
    this.#unmoved = new UnmovedPayments({ ...options, failedSpends });
    this.#faults = createFaultLog({ log, monotonicMs });
    this.batches = createBatchBuilder({
      config,
      relayer,
      clock,
      untilNextBlockMs: options.untilNextBlockMs,
      isQueueShort: () => queue.isShort(),
      waitForSlot: () => queue.waitForSlot(),
      onSubmitted: (send) => queue.onSubmitted(send),
    });
    this.#loop = repeat(
      () => this.#round(),
      () => this.#pause(),
    );
  }

  /** Returns how long the next payment would wait in the queue, at least. */
  waitMs(): number {
    return this.#queue.waitMs();
  }

  queue(): Backlog {
    return this.#queue.backlog;
  }

  /** whether some payments may not be queued now */
  get isCrowded(): boolean {
    return this.#shares.isCrowded(this.#queue.waitMs());
  }

  /** Returns whether a payment may be queued: towards `MAX_QUEUE_AGE_MS`, only those below their share. */
  mayQueue(party: Party): boolean {
    return this.#shares.mayEnter(party, this.#queue.waitMs());
  }

  /** Counts a payment for its payer and provider while it is judged and bound, and until it is counted in the queue. */
  async entering<T>(party: Party, admit: () => Promise<T>): Promise<T> {
    const ends = [this.#queue.entering(), this.#shares.entering(party)];
    try {
      return await admit();
    } finally {
      for (const end of ends) end();
    }
  }

  /** Settles or fails a payment whose nonce is used, from the chain's logs. @returns whether it did */
  reconcile(row: PaymentRow): Promise<boolean> {
    return this.#unmoved.reconcile(row);
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  async #round(): Promise<void> {
    try {
      await this.failedSpends.refresh();
      await this.payerGas.refresh();
      // Without keys another process sends. The queue's length is still needed to decide on admission.
      if (this.#options.config.roles.includes("relayer")) {
        await this.#unmoved.sweep();
        await this.deployments.sweep(this.#options.clock.nowSec());
        await this.#queue.send();
        await this.#options.reservations.deleteEnded();
      } else await this.#queue.measure();
      await this.#shares.refresh(this.#queue.waitMs());
      this.#faults.recovered("round");
    } catch (error) {
      this.#faults.met("round", error, "sending payments failed");
    }
  }

  /** Waits for the pace while payments are queued, and otherwise for the next poll; a notification ends both. */
  #pause(): Promise<unknown> {
    const { config, store } = this.#options;
    const restMs = this.#queue.backlog.queued > 0 ? paceMsOf(config) : config.pollMs;
    return Promise.race([store.notifier.wait("payments", restMs), store.notifier.wait("block", restMs)]);
  }
}
