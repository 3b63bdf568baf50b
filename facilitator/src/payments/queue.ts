/**
 * The queue of accepted payments and the slots for their transactions. Choosing payments, writing their transactions
 * and updating their rows happen in one database transaction.
 */
import { randomUUID } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import type { Clock } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { Db, Store, Tx } from "../db/open";
import { databaseNowMs } from "../db/sql";
import { Pace } from "../lib/pace";
import type { Relayer } from "../relayer";
import type { Failpoint } from "../telemetry/failpoints";
import { itemsPerBatch, planTransactions, QUEUED_COLUMNS, settleRequest } from "./batch";
import { paceMsOf, SEND_MARGIN_SEC, slotsOf } from "./batch-builder";

export interface PaymentQueueOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly relayer: Relayer;
  readonly clock: Clock;
  readonly applied: () => number;
  readonly onStep: Failpoint;
  readonly monotonicMs: () => number;
}

export interface Backlog {
  readonly queued: number;
  readonly oldestMs: number;
}

/** A queue that one transaction empties has no pace: its payments wait for no others. */
const MIN_PACED = 2;

/** Per slot. Limits how far a node's count of mined transactions is trusted. */
const MAX_UNREAD = 4;

/** Slow chains have a long pace; stopping the service must not wait for it. */
const MAX_REST_MS = 500;

/** Maximum transactions built from the queue at once, so that a backlog shrinks faster than it grows. */
const MAX_COMPOSED = 8;

/** How often the free slots are counted without a notification. */
const SLOT_CHECK_MS = 50;

export class PaymentQueue {
  readonly #options: PaymentQueueOptions;
  /** Sized for payments from plain accounts, which nearly all are. */
  readonly #fullBatch: number;
  readonly #slots: number;
  readonly #pace: Pace;
  #backlog: Backlog = { queued: 0, oldestMs: 0 };
  /** admitted payments that the last count cannot contain */
  #uncounted = 0;
  /** how many of these are bound or refused, so that the next count contains them */
  #leaving = 0;
  /** whether every slot was in use at the last count */
  #isFull = false;
  #submittedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: PaymentQueueOptions) {
    this.#options = options;
    this.#fullBatch = itemsPerBatch(options.config);
    this.#slots = slotsOf(options.config);
    this.#pace = new Pace(options.monotonicMs);
  }

  get backlog(): Backlog {
    return this.#backlog;
  }

  /**
   * Returns how long the next payment would wait: as long as the oldest has, or longer by the pace of this process, or
   * by what a block can take.
   */
  waitMs(): number {
    const { queued, oldestMs } = this.#backlog;
    const isPaced = queued >= this.#fullBatch * MIN_PACED;
    return Math.max(oldestMs, isPaced ? this.#pace.expectedWaitMs(queued) : 0, this.#leastWaitMs());
  }

  /** Counts a payment from its admission on. @returns the function to call when it is bound or refused */
  entering(): () => void {
    this.#uncounted += 1;
    return () => {
      this.#leaving += 1;
    };
  }

  /** The pace shows a burst too late. */
  #leastWaitMs(): number {
    const { config, relayer } = this.#options;
    const slots = this.#slots || relayer.addresses.length * config.lanesInFlight;
    if (slots === 0) return 0;
    const blocks = Math.floor((this.#backlog.queued + this.#uncounted) / (slots * this.#fullBatch));
    return blocks * config.blockTimeMs;
  }

  #counted(backlog: Backlog, leaving: number): void {
    this.#backlog = backlog;
    this.#uncounted -= leaving;
    this.#leaving -= leaving;
  }

  /** Returns whether the queue is so short and recent that it leaves with the next transaction anyway. */
  isShort(): boolean {
    return this.#backlog.queued < this.#fullBatch && this.#backlog.oldestMs < this.#options.config.blockTimeMs;
  }

  async measure(): Promise<void> {
    const { store, config, clock } = this.#options;
    const leaving = this.#leaving;
    const row = await store.db
      .selectFrom("payments")
      .select([
        (eb) => eb.fn.countAll<number>().as("queued"),
        (eb) => eb.fn.min("accepted_at_ms").as("oldest"),
        databaseNowMs.as("now"),
      ])
      .where("chain_id", "=", config.chainId)
      .where("state", "=", "queued")
      // A payment that can no longer be sent only waits to expire.
      .where("valid_before", ">", clock.nowSec() + SEND_MARGIN_SEC)
      .executeTakeFirstOrThrow();
    const oldestMs = row.oldest === null ? 0 : Math.max(0, row.now - row.oldest);
    this.#counted({ queued: Number(row.queued), oldestMs }, leaving);
  }

  /**
   * Waits while the queue is short, for a slot or the next block.
   * @returns whether there is a free slot
   */
  async waitForSlot(): Promise<boolean> {
    const { store, monotonicMs } = this.#options;
    const applied = this.#options.applied();
    const untilMs = monotonicMs() + MAX_REST_MS;
    const mayWait = (): boolean => this.isShort() && this.#options.applied() === applied && monotonicMs() < untilMs;
    while (mayWait()) {
      if (!(await this.#lacksSlots(store.db))) return true;
      await store.notifier.wait("payments", SLOT_CHECK_MS);
    }
    return false;
  }

  /** Sends at once when idle, and gathers payments when busy, because one-item transactions would use up the slots. */
  async send(): Promise<void> {
    const { config, monotonicMs } = this.#options;
    const restMs = this.#submittedAtMs + paceMsOf(config) - monotonicMs();
    if (restMs > 0) await new Promise((resolve) => setTimeout(resolve, Math.min(restMs, MAX_REST_MS)));
    if (restMs > MAX_REST_MS) return this.measure();
    if (await this.#waitsForSlot()) return;
    await this.measure();
    while (this.#backlog.queued > 0 && (await this.#submit()));
  }

  /** Sends transactions that were committed. @param sendThem the function that the relayer returned for them */
  onSubmitted(sendThem: () => void): void {
    this.#options.onStep("composed");
    this.#submittedAtMs = this.#options.monotonicMs();
    sendThem();
  }

  /** Builds as many transactions as there are free slots, oldest payments first. @returns whether more may be queued */
  async #submit(): Promise<boolean> {
    const { config, store, clock, relayer } = this.#options;
    const nowSec = clock.nowSec();
    const leaving = this.#leaving;
    let sendThem: (() => void) | undefined;
    const isMore = await store.transaction(async (tx) => {
      const rows = await tx
        .selectFrom("payments")
        .select([...QUEUED_COLUMNS, "accepted_at_ms", databaseNowMs.as("now"), this.#unmined().as("unmined")])
        .where("chain_id", "=", config.chainId)
        .where("state", "=", "queued")
        .where("valid_before", ">", nowSec + SEND_MARGIN_SEC)
        .orderBy("accepted_at_ms")
        .limit(this.#fullBatch * MAX_COMPOSED)
        .forUpdate()
        .skipLocked()
        .execute();
      const free = this.#slots - Number(rows[0]?.unmined ?? 0);
      this.#isFull = free <= 0;
      const { plans, rest } = planTransactions(rows, config.batchSettler, config, Math.min(free, MAX_COMPOSED));
      const [oldest] = rest;
      const oldestMs = oldest ? Math.max(0, oldest.now - oldest.accepted_at_ms) : 0;
      const sent = rows.length - rest.length;
      // More may be queued than one statement reads.
      const isAll = rows.length < this.#fullBatch * MAX_COMPOSED;
      const queued = isAll ? rest.length : Math.max(rest.length, this.#backlog.queued - sent);
      this.#pace.left(sent, queued);
      this.#counted({ queued, oldestMs }, leaving);
      if (plans.length === 0) return false;
      const made = plans.map((plan) => ({ ...plan, id: randomUUID() }));
      await this.#markSent(tx, made);
      sendThem = await relayer.dispatch(
        made.map((plan) => settleRequest(plan, plan.id)),
        tx,
      );
      return rows.length === this.#fullBatch * MAX_COMPOSED;
    });
    if (sendThem) this.onSubmitted(sendThem);
    return isMore;
  }

  async #markSent(tx: Tx, made: readonly { id: string; paymentIds: readonly string[] }[]): Promise<void> {
    const sent = made.flatMap(({ id, paymentIds }) => paymentIds.map((payment_id) => ({ payment_id, id })));
    await sql`update payments p set state = 'sent', transaction_id = x.id, attempts = p.attempts + 1
      from json_to_recordset(${JSON.stringify(sent)}::json) as x(payment_id text, id text)
      where p.chain_id = ${this.#options.config.chainId}::bigint and p.payment_id = x.payment_id`.execute(tx);
  }

  /** When every slot is in use, the queue is measured without locking it. */
  async #waitsForSlot(): Promise<boolean> {
    if (!this.#isFull) return false;
    if (await this.#lacksSlots(this.#options.store.db)) await this.measure();
    return this.#isFull;
  }

  async #lacksSlots(db: Db): Promise<boolean> {
    const { rows } = await sql<{ unmined: number }>`select ${this.#unmined()} as unmined`.execute(db);
    this.#isFull = Number(rows[0]?.unmined ?? 0) >= this.#slots;
    return this.#isFull;
  }

  /**
   * Settlements that are in no block yet. For its own lanes, this process knows them earlier than the rows, which
   * change when the block is applied. For other processes' lanes, only the rows are known.
   */
  #unmined(): RawBuilder<number> {
    const { relayer, config } = this.#options;
    const inPool = relayer.inPool();
    const count =
      inPool === undefined
        ? sql`count(*)`
        : sql`greatest(count(*) filter (where status = 'queued') + ${inPool}::bigint, count(*) / ${MAX_UNREAD}::bigint)`;
    return sql<number>`(select ${count} from transactions where chain_id = ${config.chainId}::bigint
      and not is_final and status in ('queued', 'stored') and purpose = 'settle')`;
  }
}
