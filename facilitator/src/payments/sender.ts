/**
 * Turns the queue into transactions, at the pace of the chain, and looks after what was sent and did not move. The
 * choice of a batch, its transaction and the new state of its payments are one database transaction.
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
  /** for those who need not queue */
  readonly batches: BatchBuilder;
  /** Settles or fails a payment whose nonce is used, from the chain's logs. @returns whether it was */
  reconcile(row: PaymentRow): Promise<boolean>;
  stop(): Promise<void>;
}

/** A payment that did not move is tried again so often without anybody asking. */
export const MAX_ATTEMPTS = 3;

/** For each slot, whatever a node says: its count of what is mined is believed no further. */
const MAX_UNREAD = 4;

/** Slow chains have long paces; whoever stops this service does not wait for them. */
const MAX_REST_MS = 500;

/** Transactions made of the queue at once: a backlog is worked off faster than it grows. */
const MAX_COMPOSED = 8;

/** How often it is looked whether there is room, without being told. */
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
  /** Payments without code, as nearly all are. */
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
    waitForSlot: room,
    onSubmitted: left,
  });

  function left(sendIt: () => void): void {
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
      // What cannot be sent any more waits for nothing but its end.
      .where("valid_before", ">", clock.nowSec() + SEND_MARGIN_SEC)
      .executeTakeFirstOrThrow();
    const oldestMs = row.oldest === null ? 0 : Math.max(0, row.now - row.oldest);
    backlog = { queued: Number(row.queued), oldestMs };
  }

  /**
   * Settlements that no block holds yet. Of its own lanes this process knows sooner than the rows do, which change when
   * the block is applied; those that another process sends, the rows alone tell.
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

  /** With every slot taken the queue is looked at, and not locked. */
  async function waitsForSlot(): Promise<boolean> {
    if (!isFull) return false;
    if (await lacksSlots(store.db)) await measure();
    return isFull;
  }

  function isQueueShort(): boolean {
    return backlog.queued < fullBatch && backlog.oldestMs < config.blockTimeMs;
  }

  async function room(): Promise<boolean> {
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

  /** The oldest first, into as many transactions as there are slots for them. @returns whether there may be more */
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
    if (sendThem) left(sendThem);
    return isMore;
  }

  async function markSent(tx: Tx, made: readonly { id: string; paymentIds: readonly string[] }[]): Promise<void> {
    const sent = made.flatMap(({ id, paymentIds }) => paymentIds.map((payment_id) => ({ payment_id, id })));
    await sql`update payments p set state = 'sent', transaction_id = x.id, attempts = p.attempts + 1
      from json_to_recordset(${JSON.stringify(sent)}::json) as x(payment_id text, id text)
      where p.chain_id = ${config.chainId}::bigint and p.payment_id = x.payment_id`.execute(tx);
  }

  /** An idle lane sends at once; a busy one gathers for a while, since one-item transactions would use up its slots. */
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
    // Used, but not in a block that is applied yet: the indexer will see it.
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
        // Without keys here another process sends; the queue's length is still what decides on taking more in.
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
      // While payments gather, the pace is the time to wait; otherwise whatever happens first.
      const restMs = backlog.queued > 0 ? paceMs : config.pollMs;
      return Promise.race([store.wake.wait("payments", restMs), store.wake.wait("block", restMs)]);
    },
  );

  return { queue: () => backlog, failedSpends, batches, reconcile, stop: () => loop.stop() };
}
