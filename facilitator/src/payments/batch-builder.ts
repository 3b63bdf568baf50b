/**
 * Payments that come in together are bound straight into a transaction while a lane has room and few are queued before
 * them: one write less for each, and no wait. Rows and transaction are one database transaction, as from the queue.
 */
import { randomUUID } from "node:crypto";
import { type Clock, type Hex, TurnpikeError } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { Tx } from "../db/open";
import type { Relayer } from "../relayer";
import { itemsPerBatch, planTransaction, type QueuedPayment, settleRequest } from "./batch";
import type { Acceptance } from "./claim";

/** Not sent any more so shortly before its window ends: it would be mined too late, and cost gas. */
export const SEND_MARGIN_SEC = 2;

const PACES_PER_BLOCK = 16;

/** On fast chains: transactions of a few payments cost more than the wait for some others. */
const MIN_PACE_MS = 50;

/** Slow chains have long paces; nobody waits for them to be bound. */
const MAX_PACE_MS = 250;

/** In this part of a block's time before it is due nothing is held back any more: it may be early, or be seen late. */
const LAST_CALL = 8;

/** One transaction that is being filled. */
export interface OpenBatch {
  readonly transactionId: string;
  /** those that are bound as sent with it, if they are bound */
  readonly payments: ReadonlySet<Acceptance>;
  /** Writes the transaction of those that were bound. @returns what sends it, to be called when it is committed; if there is one */
  commit(bound: readonly Acceptance[]): Promise<(() => void) | undefined>;
}

export interface BatchBuilder {
  /** how many payments a transaction holds */
  readonly capacity: number;
  /**
   * Between two transactions, as of now. What is left of a block's time is divided among the places that are left: with
   * all of them taken early, whoever comes after that would miss the block.
   */
  paceMs(): number;
  /** Whether some of these might leave at once; the database has not been asked yet. */
  canSendNow(acceptances: readonly Acceptance[]): boolean;
  /**
   * Waits for a lane that has room, but for no new block: what was judged by the last one is bound before the next.
   * To wait here is cheaper than to be queued, which is written twice.
   * @returns whether there is one
   */
  waitForSlot(): Promise<boolean>;
  /** Where there is room. @returns undefined when all of them have to queue */
  open(tx: Tx, acceptances: readonly Acceptance[]): OpenBatch | undefined;
  /** To be told when it is committed. @param send what `depart` has returned */
  onSubmitted(send: () => void): void;
}

export interface BatchBuilderOptions {
  readonly config: FacilitatorConfig;
  readonly relayer: Relayer;
  readonly clock: Clock;
  /** until the next block is due; below 0 when it is overdue */
  untilNextBlockMs(): number;
  /** so few are queued, and so lately, that they leave with the next transaction anyway */
  isQueueShort(): boolean;
  waitForSlot(): Promise<boolean>;
  onSubmitted(send: () => void): void;
}

/** Settlements that may be under way at once. */
export const slotsOf = ({ lanesInFlight, relayerKeys }: FacilitatorConfig): number =>
  lanesInFlight * relayerKeys.length;

export const paceMsOf = ({ blockTimeMs }: FacilitatorConfig): number =>
  Math.max(MIN_PACE_MS, blockTimeMs / PACES_PER_BLOCK);

/** One alone goes by the queue: its transaction is not the settler's. */
const FEWEST = 2;

export function createBatchBuilder(options: BatchBuilderOptions): BatchBuilder {
  const { config, relayer, clock, isQueueShort, waitForSlot: room, onSubmitted: departed } = options;
  const capacity = itemsPerBatch(config);
  const minPaceMs = Math.min(MAX_PACE_MS, paceMsOf(config));
  const sends = config.roles.includes("relayer");

  /** Wallets of code have small batches of their own. */
  function eligibleOf(acceptances: readonly Acceptance[]): Acceptance[] {
    if (!sends || acceptances.length < FEWEST || !isQueueShort()) return [];
    const lateSec = BigInt(clock.nowSec() + SEND_MARGIN_SEC);
    return acceptances
      .filter(
        ({ state, hasCode, claim }) => state === "queued" && !hasCode && claim.authorization.validBefore > lateSec,
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
    waitForSlot: room,
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
          // Without this the rest would be held for sent, in a transaction that does not carry it.
          if (plan.paymentIds.length !== rows.length) throw new TurnpikeError("Internal", "a transaction is overfull");
          return relayer.dispatch([settleRequest(plan, transactionId)], tx);
        },
      };
    },
    onSubmitted: departed,
  };
}

function queuedForm({ claim, hasCode }: Acceptance): QueuedPayment {
  const { from, to, value, nonce, validAfter, validBefore } = claim.authorization;
  return {
    payment_id: claim.paymentId as Hex,
    token: claim.token.address,
    payer: from,
    pay_to: to,
    amount: value.toString(),
    nonce,
    valid_after: Number(validAfter),
    valid_before: Number(validBefore),
    signature: claim.signature,
    has_code: hasCode,
    attempts: 0,
  };
}
