/**
 * Builds transactions from the queue at the pace of the chain, and retries payments that were sent and did not move.
 * Choosing a batch, writing its transaction and updating its payments happen in one database transaction.
 */
import { randomUUID } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import type { Logger } from "pino";
import type { Address, Clock, Hex } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { Db, Store, Tx } from "../db/open";
import { databaseNowMs } from "../db/sql";
import type { PaymentRow } from "../db/tables/payments";
import type { EventFeed } from "../events/feed";
import { unmineStrays } from "../indexer/applied-blocks";
import { repeat } from "../lib/loop";
import type { Relayer } from "../relayer";
import type { Failpoint } from "../telemetry/failpoints";
import { createFaultLog } from "../telemetry/fault-log";
import { itemsPerBatch, planTransactions, QUEUED_COLUMNS, settleRequest } from "./batch";
import { type BatchBuilder, createBatchBuilder, paceMsOf, SEND_MARGIN_SEC, slotsOf } from "./batch-builder";
import { findEvidence } from "./evidence";
import { createFailedSpendLimiter, type FailedSpendLimiter } from "./failed-spends";
import { balanceAt, isAuthorizationUsed } from "./judge";
import { adoptEvidence, failSpent, parkUnmoved, requeuePayment } from "./ledger";

export interface SenderOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly feed: EventFeed;
  readonly relayer: Relayer;
  readonly clock: Clock;
  readonly applied: () => number;
  readonly untilNextBlockMs: () => number;
  readonly log: Logger;
  readonly onStep: Failpoint;
  readonly monotonicMs: () => number;
}

export interface Sender {
  queue(): { readonly queued: number; readonly oldestMs: number };
  readonly failedSpends: FailedSpendLimiter;
  /** for payments that need not queue */
  readonly batches: BatchBuilder;
  /** Settles or fails a payment whose nonce is used, from the chain's logs. @returns whether it did */
  reconcile(row: PaymentRow): Promise<boolean>;
  stop(): Promise<void>;
}

/** How often a payment that did not move is sent without a new request. */
export const MAX_ATTEMPTS = 3;

/** Per slot. Limits how far a node's count of mined transactions is trusted. */
const MAX_UNREAD = 4;

/** Slow chains have a long pace; stopping the service must not wait for it. */
const MAX_REST_MS = 500;

/** Maximum transactions built from the queue at once, so that a backlog shrinks faster than it grows. */
const MAX_COMPOSED = 8;

/** How often the free slots are counted without a notification. */
const ROOM_LOOK_MS = 50;

export function startSender(options: SenderOptions): Sender {
  const { config, store, feed, relayer, clock, log, monotonicMs } = options;
  const failedSpends = createFailedSpendLimiter({
    db: store.db,
    chainId: config.chainId,
    perPayer: config.maxLossesPerPayer,
    perPayee: config.maxLossesPerPayee,
    monotonicMs,
  });
  /** Sized for payments from plain accounts, which nearly all are. */
  const fullBatch = itemsPerBatch(config);
  const slots = slotsOf(config);
  let backlog = { queued: 0, oldestMs: 0 };
  let isFull = false;
  let closedAtMs = Number.NEGATIVE_INFINITY;
  let sweptAt = -1;
  const paceMs = paceMsOf(config);
  const faults = createFaultLog({ log, monotonicMs });

  const batches = createBatchBuilder({
    config,
    relayer,
    clock,
    untilNextBlockMs: options.untilNextBlockMs,
    isQueueShort,
    waitForSlot,
    onSubmitted,
  });

  function onSubmitted(sendIt: () => void): void {
    options.onStep("composed");
    closedAtMs = monotonicMs();
    sendIt();
  }

  async function measure(): Promise<void> {
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
    backlog = { queued: Number(row.queued), oldestMs };
  }

  /**
   * Settlements that are in no block yet. For its own lanes, this process knows them earlier than the rows, which
   * change when the block is applied. For other processes' lanes, only the rows are known.
   */
  const unmined = (): RawBuilder<number> => {
    const inPool = relayer.inPool();
    const count =
      inPool === undefined
        ? sql`count(*)`
        : sql`greatest(count(*) filter (where status = 'queued') + ${inPool}::bigint, count(*) / ${MAX_UNREAD}::bigint)`;
    return sql<number>`(select ${count} from transactions where chain_id = ${config.chainId}::bigint
      and not is_final and status in ('queued', 'stored') and purpose = 'settle')`;
  };

  /** When every slot is in use, the queue is measured without locking it. */
  async function waitsForSlot(): Promise<boolean> {
    if (!isFull) return false;
    if (await lacksSlots(store.db)) await measure();
    return isFull;
  }

  function isQueueShort(): boolean {
    return backlog.queued < fullBatch && backlog.oldestMs < config.blockTimeMs;
  }

  async function waitForSlot(): Promise<boolean> {
    const applied = options.applied();
    const untilMs = monotonicMs() + MAX_REST_MS;
    const mayWait = (): boolean => isQueueShort() && options.applied() === applied && monotonicMs() < untilMs;
    while (mayWait()) {
      if (!(await lacksSlots(store.db))) return true;
      await store.wake.wait("payments", ROOM_LOOK_MS);
    }
    return false;
  }

  async function lacksSlots(db: Db): Promise<boolean> {
    const { rows } = await sql<{ unmined: number }>`select ${unmined()} as unmined`.execute(db);
    isFull = Number(rows[0]?.unmined ?? 0) >= slots;
    return isFull;
  }

  /** Builds as many transactions as there are free slots, oldest payments first. @returns whether more may be queued */
  async function compose(): Promise<boolean> {
    const nowSec = clock.nowSec();
    let sendThem: (() => void) | undefined;
    const isMore = await store.transaction(async (tx) => {
      const rows = await tx
        .selectFrom("payments")
        .select([...QUEUED_COLUMNS, "accepted_at_ms", databaseNowMs.as("now"), unmined().as("unmined")])
        .where("chain_id", "=", config.chainId)
        .where("state", "=", "queued")
        .where("valid_before", ">", nowSec + SEND_MARGIN_SEC)
        .orderBy("accepted_at_ms")
        .limit(fullBatch * MAX_COMPOSED)
        .forUpdate()
        .skipLocked()
        .execute();
      const free = slots - Number(rows[0]?.unmined ?? 0);
      isFull = free <= 0;
      const { plans, rest } = planTransactions(rows, config.batchSettler, config, Math.min(free, MAX_COMPOSED));
      const [oldest] = rest;
      backlog = { queued: rest.length, oldestMs: oldest ? Math.max(0, oldest.now - oldest.accepted_at_ms) : 0 };
      if (plans.length === 0) return false;
      const made = plans.map((plan) => ({ ...plan, id: randomUUID() }));
      await markSent(tx, made);
      sendThem = await relayer.dispatch(
        made.map((plan) => settleRequest(plan, plan.id)),
        tx,
      );
      return rows.length === fullBatch * MAX_COMPOSED;
    });
    if (sendThem) onSubmitted(sendThem);
    return isMore;
  }

  async function markSent(tx: Tx, made: readonly { id: string; paymentIds: readonly string[] }[]): Promise<void> {
    const sent = made.flatMap(({ id, paymentIds }) => paymentIds.map((payment_id) => ({ payment_id, id })));
    await sql`update payments p set state = 'sent', transaction_id = x.id, attempts = p.attempts + 1
      from json_to_recordset(${JSON.stringify(sent)}::json) as x(payment_id text, id text)
      where p.chain_id = ${config.chainId}::bigint and p.payment_id = x.payment_id`.execute(tx);
  }

  /** Sends at once when idle, and gathers payments when busy, because one-item transactions would use up the slots. */
  async function send(): Promise<void> {
    const restMs = closedAtMs + paceMs - monotonicMs();
    if (restMs > 0) await new Promise((resolve) => setTimeout(resolve, Math.min(restMs, MAX_REST_MS)));
    if (restMs > MAX_REST_MS) return measure();
    if (await waitsForSlot()) return;
    await measure();
    while (backlog.queued > 0 && (await compose()));
  }

  async function sweep(): Promise<void> {
    const applied = options.applied();
    if (applied === sweptAt) return;
    await unmineStrays(store.db, config.chainId);
    const parked = await parkUnmoved(store.db, config.chainId, applied);
    sweptAt = applied;
    for (const row of parked) {
      log.warn(
        { paymentId: row.payment_id, attempts: row.attempts },
        "a payment's transaction was mined without moving it",
      );
      await lookAgain(row);
      store.wake.notify(`payment:${row.payment_id}`);
    }
  }

  async function lookAgain(row: PaymentRow): Promise<void> {
    if (await reconcile(row)) return;
    await failedSpends.add(row);
    if (row.attempts >= MAX_ATTEMPTS || row.valid_before <= clock.nowSec() + config.minWindowSec) return;
    const balance = await balanceAt(relayer, row.token as Address, row.payer as Address, -1);
    if (balance >= BigInt(row.amount)) await requeuePayment(store.db, row);
  }

  async function reconcile(row: PaymentRow): Promise<boolean> {
    const token = row.token as Address;
    const payer = row.payer as Address;
    const nonce = row.nonce as Hex;
    if (!(await isAuthorizationUsed(relayer, token, payer, nonce))) return false;
    const query = { paymentId: row.payment_id as Hex, token, payer, nonce };
    const evidence = await findEvidence({ config, relayer }, query, options.applied());
    // The nonce is used in a block that is not applied yet; the indexer will apply it.
    if (evidence.kind === "none") return false;
    if (evidence.kind === "cancelled") await failSpent({ store, feed }, row, "cancelled", evidence);
    else if (evidence.to !== row.pay_to || evidence.amount !== BigInt(row.amount))
      await failSpent({ store, feed }, row, "nonce_spent_elsewhere", evidence);
    else if (row.door === "settle" && evidence.blockNumber <= row.accepted_block)
      await failSpent({ store, feed }, row, "settled_before_acceptance", evidence);
    else await adoptEvidence({ store, feed }, row, evidence);
    return true;
  }

  const loop = repeat(
    async () => {
      try {
        await failedSpends.refresh();
        // Without keys another process sends. The queue's length is still needed to decide on admission.
        if (config.roles.includes("relayer")) {
          await sweep();
          await send();
        } else await measure();
        faults.recovered("round");
      } catch (error) {
        faults.met("round", error, "sending payments failed");
      }
    },
    () => {
      // While payments gather, waits for the pace; otherwise for a notification.
      const restMs = backlog.queued > 0 ? paceMs : config.pollMs;
      return Promise.race([store.wake.wait("payments", restMs), store.wake.wait("block", restMs)]);
    },
  );

  return { queue: () => backlog, failedSpends, batches, reconcile, stop: () => loop.stop() };
}
