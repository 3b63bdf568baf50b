/**
 * Binds payments that arrive together straight into a transaction while a lane has a free slot and the queue is short.
 * Saves one write per payment, and the wait. As from the queue, the rows and the transaction are written in one
 * database transaction.
 */
import { randomUUID } from "node:crypto";
import { type Clock, type Hex, TurnpikeError } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { Tx } from "../db/open";
import type { Relayer } from "../relayer";
import { itemsPerBatch, planTransaction, type QueuedPayment, settleRequest } from "./batch";
import type { Acceptance } from "./payment-request";
import { transferColumns } from "./transfer";

/** Seconds before `validBefore` from which a payment is no longer sent: it would be mined too late and cost gas. */
export const SEND_MARGIN_SEC = 2;

const PACES_PER_BLOCK = 16;

/** On fast chains, transactions with few payments cost more than waiting for others. */
const MIN_PACE_MS = 50;

/** Slow chains have a long pace; callers must not wait that long to be bound. */
const MAX_PACE_MS = 250;

/**
 * Fraction of the block time before the next block in which nothing is delayed: that block may be early, or be indexed
 * late.
 */
const LAST_CALL = 8;

export interface OpenBatch {
  readonly transactionId: string;
  /** payments that are bound as sent with this transaction, if they are bound */
  readonly payments: ReadonlySet<Acceptance>;
  /**
   * Writes the transaction of the bound payments.
   * @returns the function that sends it, to call after the commit; undefined when there is no transaction
   */
  commit(bound: readonly Acceptance[]): Promise<(() => void) | undefined>;
}

export interface BatchBuilder {
  readonly capacity: number;
  /**
   * Returns the current pause between two transactions. Divides the rest of the block time among the free slots. If all
   * slots filled early, a later payment would miss the block.
   */
  paceMs(): number;
  /** Returns whether some of these may be sent at once, without asking the database. */
  canSendNow(acceptances: readonly Acceptance[]): boolean;
  /**
   * Waits for a lane with a free slot, but not past the next block: payments judged at one block are bound before the
   * next. Waiting here is cheaper than queuing, which writes each payment twice.
   * @returns whether there is a free slot
   */
  waitForSlot(): Promise<boolean>;
  /** Opens a batch when slots are free. @returns undefined when every payment has to queue */
  open(tx: Tx, acceptances: readonly Acceptance[]): OpenBatch | undefined;
  /** Call after the commit. @param send the function that `commit` returned */
  onSubmitted(send: () => void): void;
}

export interface BatchBuilderOptions {
  readonly config: FacilitatorConfig;
  readonly relayer: Relayer;
  readonly clock: Clock;
  /** time until the next block is due; negative when it is overdue */
  untilNextBlockMs(): number;
  /** whether the queue is so short and recent that it leaves with the next transaction anyway */
  isQueueShort(): boolean;
  waitForSlot(): Promise<boolean>;
  onSubmitted(send: () => void): void;
}

/** Returns how many settlements may be in flight at once. */
export const slotsOf = ({ lanesInFlight, relayerKeys }: FacilitatorConfig): number =>
  lanesInFlight * relayerKeys.length;

export const paceMsOf = ({ blockTimeMs }: FacilitatorConfig): number =>
  Math.max(MIN_PACE_MS, blockTimeMs / PACES_PER_BLOCK);

/** A single payment uses the queue: its transaction does not go through the settler. */
const FEWEST = 2;

export function createBatchBuilder(options: BatchBuilderOptions): BatchBuilder {
  const { config, relayer, clock, isQueueShort, waitForSlot, onSubmitted } = options;
  const capacity = itemsPerBatch(config);
  const minPaceMs = Math.min(MAX_PACE_MS, paceMsOf(config));
  const sends = config.roles.includes("relayer");

  /** Contract wallets have separate, smaller batches. */
  function eligibleOf(acceptances: readonly Acceptance[]): Acceptance[] {
    if (!sends || acceptances.length < FEWEST || !isQueueShort()) return [];
    const lateSec = BigInt(clock.nowSec() + SEND_MARGIN_SEC);
    return acceptances
      .filter(
        ({ state, hasCode, request }) =>
          state === "queued" &&
          !hasCode &&
          request.transfer.method === "eip3009" &&
          request.authorization.validBefore > lateSec,
      )
      .slice(0, capacity);
  }

  return {
    capacity: capacity,
    paceMs() {
      const free = Math.max(1, slotsOf(config) - (relayer.inPool() ?? 0));
      const leftMs = options.untilNextBlockMs() - config.blockTimeMs / LAST_CALL;
      return Math.max(minPaceMs, Math.min(MAX_PACE_MS, leftMs / free));
    },
    canSendNow: (acceptances) => eligibleOf(acceptances).length >= FEWEST,
    waitForSlot,
    open(tx, acceptances) {
      const eligible = eligibleOf(acceptances);
      if (eligible.length < FEWEST) return undefined;
      const transactionId = randomUUID();
      const members = new Set(eligible);
      return {
        transactionId,
        payments: members,
        async commit(bound) {
          const rows = bound.filter((acceptance) => members.has(acceptance)).map(queuedForm);
          const plan = planTransaction(rows, config.batchSettler, config);
          if (!plan) return undefined;
          // Without this check the other payments would be marked as sent in a transaction that does not carry them.
          if (plan.paymentIds.length !== rows.length)
            throw new TurnpikeError("Internal", "a batch exceeds the limits of a transaction");
          return relayer.dispatch([settleRequest(plan, transactionId)], tx);
        },
      };
    },
    onSubmitted,
  };
}

function queuedForm({ request, hasCode }: Acceptance): QueuedPayment {
  const { from, to, value, nonce, validAfter, validBefore } = request.authorization;
  return {
    payment_id: request.paymentId as Hex,
    token: request.token.address,
    payer: from,
    pay_to: to,
    amount: value.toString(),
    nonce,
    valid_after: Number(validAfter),
    valid_before: Number(validBefore),
    signature: request.signature,
    has_code: hasCode,
    attempts: 0,
    ...transferColumns(request.transfer),
  };
}
