/**
 * Turns the queue into transactions, at the pace of the chain, and looks after what was sent and did not move. The
 * choice of a batch, its transaction and the new state of its payments are one database transaction.
 */
import { randomUUID } from "node:crypto";
import type { Logger } from "pino";
import { type Address, type Clock, type Hex, isTurnpikeError } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import { type Relayer, repeat } from "../relayer";
import type { OnStep } from "../steps";
import { databaseNowMs } from "../store/database-clock";
import type { Store } from "../store/open";
import type { PaymentRow } from "../store/tables/payments";
import { planTransaction } from "./batch";
import { findEvidence } from "./evidence";
import { balanceAt, isAuthorizationUsed } from "./judge";
import { adoptEvidence, failSpent, parkUnmoved, requeuePayment, unmineStrays } from "./ledger";
import { createLosses, type Losses } from "./losses";

export interface SenderOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly relayer: Relayer;
  readonly clock: Clock;
  readonly applied: () => number;
  readonly log: Logger;
  readonly onStep: OnStep;
  readonly monotonicMs: () => number;
}

export interface Sender {
  queue(): { readonly queued: number; readonly oldestMs: number };
  readonly losses: Losses;
  /** Settles or fails a payment whose nonce is used, from the chain's logs. @returns whether it was */
  reconcile(row: PaymentRow): Promise<boolean>;
  stop(): Promise<void>;
}

/** A payment that did not move is tried again so often without anybody asking. */
export const MAX_ATTEMPTS = 3;
/** Not sent any more so shortly before its window ends: it would be mined too late, and cost gas. */
const SEND_MARGIN_SEC = 2;
const PACES_PER_BLOCK = 16;

export function startSender(options: SenderOptions): Sender {
  const { config, store, relayer, clock, log, monotonicMs } = options;
  const losses = createLosses({ monotonicMs, perPayer: config.maxLossesPerPayer, perPayee: config.maxLossesPerPayee });
  let backlog = { queued: 0, oldestMs: 0 };
  let closedAtMs = Number.NEGATIVE_INFINITY;
  let sweptAt = -1;

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
      .executeTakeFirst();
    backlog = { queued: Number(row?.queued ?? 0), oldestMs: row?.oldest ? Math.max(0, row.now - row.oldest) : 0 };
  }

  async function unminedSettlements(): Promise<number> {
    const row = await store.db
      .selectFrom("transactions")
      .select((eb) => eb.fn.countAll<number>().as("count"))
      .where("chain_id", "=", config.chainId)
      .where("is_final", "=", false)
      .where("status", "in", ["queued", "stored"])
      .where("purpose", "=", "settle")
      .executeTakeFirst();
    return Number(row?.count ?? 0);
  }

  /** @returns whether a transaction was made */
  async function compose(): Promise<boolean> {
    const nowSec = clock.nowSec();
    const made = await store.transaction(async (tx) => {
      const rows = await tx
        .selectFrom("payments")
        .selectAll()
        .where("chain_id", "=", config.chainId)
        .where("state", "=", "queued")
        .where("valid_before", ">", nowSec + SEND_MARGIN_SEC)
        .orderBy("accepted_at_ms")
        .limit(config.batchItems)
        .forUpdate()
        .skipLocked()
        .execute();
      const plan = planTransaction(rows, config.batchSettler, config);
      if (!plan) return false;
      const transactionId = await relayer.submit(
        {
          purpose: "settle",
          idempotencyKey: `settle/${randomUUID()}`,
          to: plan.to,
          data: plan.data,
          gasLimit: plan.gasLimit,
        },
        tx,
      );
      await tx
        .updateTable("payments")
        .set((eb) => ({ state: "sent", transaction_id: transactionId, attempts: eb("attempts", "+", 1) }))
        .where("chain_id", "=", config.chainId)
        .where("payment_id", "in", [...plan.paymentIds])
        .execute();
      return true;
    });
    if (made) {
      options.onStep("composed");
      closedAtMs = monotonicMs();
      relayer.poke();
    }
    return made;
  }

  /** An idle lane sends at once; a busy one gathers for a while, since one-item transactions would use up its slots. */
  async function send(): Promise<void> {
    await measure();
    while (backlog.queued > 0) {
      const paceMs = config.blockTimeMs / PACES_PER_BLOCK;
      const isFull = backlog.queued >= config.batchItems;
      if (!isFull && monotonicMs() - closedAtMs < paceMs) return;
      if ((await unminedSettlements()) >= config.lanesInFlight * config.relayerKeys.length) return;
      if (!(await compose())) return;
      await measure();
    }
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
    losses.add(row);
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
    if (evidence.kind === "cancelled") await failSpent(store, row, "cancelled", evidence);
    else if (evidence.to !== row.pay_to || evidence.amount !== BigInt(row.amount))
      await failSpent(store, row, "nonce_spent_elsewhere", evidence);
    else if (row.door === "settle" && evidence.blockNumber <= row.accepted_block)
      await failSpent(store, row, "settled_before_acceptance", evidence);
    else await adoptEvidence(store, row, evidence);
    return true;
  }

  const loop = repeat(
    async () => {
      try {
        // Without keys here another process sends; the queue's length is still what decides on taking more in.
        if (!config.roles.includes("relayer")) return await measure();
        await sweep();
        await send();
      } catch (error) {
        const text = error instanceof Error ? error.message : "unknown";
        log[isTurnpikeError(error) ? "warn" : "error"]({ reason: text }, "sending payments failed");
      }
    },
    () => {
      // While payments gather, the pace is the time to wait; otherwise whatever happens first.
      const paceMs = backlog.queued > 0 ? Math.max(5, config.blockTimeMs / PACES_PER_BLOCK) : config.pollMs;
      return Promise.race([store.wake.wait("payments", paceMs), store.wake.wait("block", paceMs)]);
    },
  );

  return { queue: () => backlog, losses, reconcile, stop: () => loop.stop() };
}
