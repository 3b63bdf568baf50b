/**
 * Processes one request to its outcome, through either channel: admits it, waits for the chain, and judges again what did
 * not move. Idempotent: the same request gets the same answer and moves money once.
 */
import { type Address, type Hex, isErrorCode, TurnpikeError, UINT256_MAX } from "turnpike/protocol";
import { type FacilitatorConfig, findToken } from "../config";
import type { Store } from "../db/open";
import { isDatabaseOutage, isOutcomeUnknown } from "../db/outage";
import type { PaymentRow } from "../db/tables/payments";
import type { Indexer } from "../indexer";
import type { Relayer } from "../relayer";
import type { Failpoint } from "../telemetry/failpoints";
import { createAdmissionLimiter } from "./admission-limiter";
import type { PaymentProjection } from "./block-projection";
import { findEvidence } from "./evidence";
import type { Intake } from "./intake";
import { balanceAt, isSignedByPayer, type JudgeContext, type Judgement, judge } from "./judge";
import { rebindPayment, requeuePayment } from "./ledger";
import { type Acceptance, type PaymentRequest, refusal } from "./payment-request";
import { MAX_ATTEMPTS, type Sender } from "./sender";

export interface PaymentProcessor {
  find(paymentId: Hex): Promise<PaymentRow | undefined>;
  /** Returns whether the chain still has the payment's block, with the confirmations that its amount requires. */
  isDeepEnough(row: PaymentRow): boolean;
  /** Returns whether a failed payment can never move money, even if the newest blocks are reverted. */
  isFinalFailure(row: PaymentRow): boolean;
  /**
   * Judges a request by the current chain.
   * @throws Unavailable when the chain cannot be read, or too many payments wait
   */
  judgeFresh(request: PaymentRequest): Promise<Judgement>;
  /**
   * Processes a request until it has an outcome or the time is up.
   * @throws Unavailable when the chain cannot be read and nothing is known yet
   */
  pursue(request: PaymentRequest, options: { readonly waitMs: number }): Promise<PaymentOutcome>;
}

export interface PaymentProcessorOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly relayer: Relayer;
  readonly indexer: Indexer;
  readonly projection: Pick<PaymentProjection, "writes" | "settledInLastBlock">;
  readonly sender: Sender;
  readonly intake: Intake;
  readonly context: JudgeContext;
  readonly onStep: Failpoint;
  readonly monotonicMs: () => number;
}

/** Outcome of a request, through either channel. */
export type PaymentOutcome =
  | { readonly kind: "settled"; readonly row: PaymentRow }
  | { readonly kind: "pending" }
  | { readonly kind: "failed"; readonly error: TurnpikeError }
  | { readonly kind: "refused"; readonly error: TurnpikeError; readonly liveUntilSec?: number };

/** unanswered: the connection was lost around the commit. Binding again is safe: an existing row is not changed. */
type Taken = "bound" | "look" | "unanswered";

function unanswered(error: unknown): "unanswered" {
  if (!isOutcomeUnknown(error)) throw error;
  return "unanswered";
}

/** What one call has found out about its request. */
interface Known {
  /** whether the signature is the payer's */
  isProven: boolean;
  /** whether a row exists, or a commit that would write one was sent */
  isBound: boolean;
  /** whether such a commit was not answered, so that the row may or may not exist */
  isUnanswered: boolean;
  rejudged: number;
  /** `writes` of the projection at the last read of the row */
  lookedAt: number;
}

const NOTHING_KNOWN: Known = {
  isProven: false,
  isBound: false,
  isUnanswered: false,
  rejudged: 0,
  lookedAt: Number.POSITIVE_INFINITY,
};

/** A request that does not wait still has this long to get an outcome that is already known. */
const MIN_ANSWER_MS = 1_000;

/** How often the row is read without a notification: the notification of another process may be lost. */
const LOOK_AGAIN_MS = 5_000;

const BEHIND_RETRY_SEC = 2;

/**
 * How often the row is read during a database outage: a commit may have happened, so the search lasts until the time is
 * up.
 */
const OUTAGE_LOOK_MS = 500;

export function createPaymentProcessor(options: PaymentProcessorOptions): PaymentProcessor {
  const { config, store, relayer, indexer, projection, sender, intake, context, onStep, monotonicMs } = options;
  const { chainId } = config;

  const find = intake.find;
  const limiter = createAdmissionLimiter({ maxWaiting: config.maxIntake, maxAgeMs: config.maxQueueAgeMs, monotonicMs });

  /** Blocks that were reverted since do not count. */
  const height = (): number => Math.min(indexer.head()?.number ?? indexer.applied(), indexer.keptTo());

  function isDeepEnough(row: PaymentRow): boolean {
    if (row.block_number !== null && row.block_number > indexer.keptTo()) return false;
    const token = findToken(config, row.token as Address);
    const isLarge = token !== undefined && BigInt(row.amount) >= token.largeAmount;
    if (!isLarge) return true;
    return height() - (row.block_number ?? height()) + 1 >= config.largeConfirmations;
  }

  const isFinal = (blockNumber: number): boolean => height() - blockNumber >= config.finalityDepth;

  /**
   * A failure that a log proves is final only when its block is: the block may be reverted, and the money may move
   * then.
   */
  function isFinalFailure(row: PaymentRow): boolean {
    return row.fail_reason === "expired" || row.block_number === null || isFinal(row.block_number);
  }

  /** No payment is admitted while the admitted ones cannot be sent. */
  function busy(): TurnpikeError | undefined {
    if (sender.queue().oldestMs > config.maxQueueAgeMs) {
      return refusal("Unavailable", "busy", "the queue is too long", {
        retryAfterSec: Math.ceil(config.maxQueueAgeMs / 1_000),
      });
    }
    const health = relayer.health();
    return health.ok
      ? undefined
      : refusal("Unavailable", "relayer", "the relayer cannot send now", { retryAfterSec: 10 });
  }

  async function judgeFresh(request: PaymentRequest): Promise<Judgement> {
    const first = await judge(context, request);
    if (first.kind !== "bad" || first.error.reason !== "funds") return first;
    // The payer's deposit may be in a block that is not indexed yet.
    await indexer.catchUp();
    const second = await judge(context, request);
    if (second.kind !== "bad" || second.error.reason !== "funds") return second;
    // The indexer may be behind or down: that is no fault of the payer.
    const { from, value } = request.authorization;
    if ((await balanceAt(relayer, request.token.address, from, -1)) < value) return second;
    throw refusal("Unavailable", "busy", "the block that brought the payer's money is not read yet", {
      retryAfterSec: BEHIND_RETRY_SEC,
    });
  }

  /** Admits a request that has no known live row. @returns "look" when there is a row to read */
  async function accept(request: PaymentRequest, isRebinding: boolean): Promise<PaymentOutcome | Taken> {
    const closed = busy() ?? sender.failedSpends.refusalOf(request);
    if (closed) return { kind: "refused", error: closed };
    return limiter.run(() => admit(request, isRebinding));
  }

  async function admit(request: PaymentRequest, isRebinding: boolean): Promise<PaymentOutcome | Taken> {
    const judgement = await judgeFresh(request);
    if (judgement.kind === "bad") return { kind: "refused", error: judgement.error };
    if (judgement.kind === "used") {
      if (!isRebinding && (await find(request.paymentId))) return "look";
      return (await adopt(request, isRebinding)) ?? "look";
    }
    const acceptance: Acceptance = { chainId, request, state: "queued", ...judgement };
    const binding = await (isRebinding ? rebindPayment(store, acceptance) : intake.bind(acceptance)).catch(unanswered);
    if (binding === "unanswered") return binding;
    if (binding === "short") {
      return {
        kind: "refused",
        error: refusal("InsufficientFunds", "funds", "the payer's pending payments leave too little for this one"),
      };
    }
    if (binding === "granted") return { kind: "refused", error: alreadyGranted() };
    onStep("bound");
    if (isRebinding) store.wake.notify("payments");
    return binding === "bound" ? "bound" : "look";
  }

  /** Adopts a nonce that is used without a row. For a native payment, the chain's logs are sufficient evidence. */
  async function adopt(request: PaymentRequest, isRebinding: boolean): Promise<PaymentOutcome | undefined> {
    await indexer.catchUp();
    const { from: payer, to, value, nonce } = request.authorization;
    const query = { paymentId: request.paymentId, token: request.token.address, payer, nonce };
    const evidence = await findEvidence({ config, relayer }, query, indexer.applied());
    const isOurs = evidence.kind === "transfer" && evidence.to === to && evidence.amount === value;
    if (evidence.kind === "none") return { kind: "pending" };
    if (!isOurs || request.channel === "settle") {
      const why =
        evidence.kind === "cancelled" ? "the authorization was cancelled" : "the authorization was used already";
      const error = refusal("PaymentNotAllowed", "nonce_used", why);
      if (isFinal(evidence.blockNumber)) return { kind: "failed", error };
      return request.channel === "settle" ? { kind: "refused", error } : { kind: "pending" };
    }
    const acceptance: Acceptance = {
      chainId,
      request,
      state: "parked",
      hasCode: false,
      balance: UINT256_MAX,
      atBlock: indexer.applied(),
    };
    if (isRebinding) await rebindPayment(store, acceptance);
    else await intake.bind(acceptance);
    const row = await find(request.paymentId);
    if (row) await sender.reconcile(row);
    return undefined;
  }

  /** Returns in time, whatever the work waits for. The work continues, and a later request finds its outcome. */
  function pursue(request: PaymentRequest, { waitMs }: { readonly waitMs: number }): Promise<PaymentOutcome> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => resolve({ kind: "pending" }), Math.max(waitMs, MIN_ANSWER_MS));
      follow(request, waitMs)
        .then(resolve, reject)
        .finally(() => clearTimeout(timer));
    });
  }

  /**
   * During a database outage, a request that may be bound stays pending; any other request gets the outage as its error.
   */
  async function follow(request: PaymentRequest, waitMs: number): Promise<PaymentOutcome> {
    const untilMs = monotonicMs() + waitMs;
    const known: Known = { ...NOTHING_KNOWN };
    for (;;) {
      try {
        return await followOn(request, untilMs, known);
      } catch (error) {
        if (!known.isBound || !isDatabaseOutage(error)) throw error;
        if (monotonicMs() >= untilMs) return { kind: "pending" };
        await store.wake.wait(`payment:${request.paymentId}`, OUTAGE_LOOK_MS);
      }
    }
  }

  async function look(request: PaymentRequest, known: Known): Promise<PaymentRow | undefined> {
    const row = await find(request.paymentId);
    known.lookedAt = projection.writes();
    return row;
  }

  async function followOn(request: PaymentRequest, untilMs: number, known: Known): Promise<PaymentOutcome> {
    for (;;) {
      const leftMs = Math.max(0, untilMs - monotonicMs());
      const woken = store.wake.wait(`payment:${request.paymentId}`, Math.min(leftMs, LOOK_AGAIN_MS));
      // Nearly every payment is requested once, so an unknown id is judged first and read afterwards.
      const isNew = intake.isNew(request.paymentId);
      // Another process may have reverted a payment that settled before the last read. Then only the row counts.
      const settled = projection.settledInLastBlock(request.paymentId, known.lookedAt);
      let row = settled ?? (isNew ? undefined : await look(request, known));
      if (!row) {
        // Another process may have admitted the request, even if this one cannot judge it now.
        const outcome = await accept(request, false).catch((error: unknown) => ({ kind: "thrown" as const, error }));
        known.lookedAt = projection.writes();
        if (outcome === "bound" || outcome === "look" || outcome === "unanswered") {
          known.isProven = true;
          known.isBound = true;
          known.isUnanswered ||= outcome === "unanswered";
          if (outcome === "look") continue;
          if (monotonicMs() >= untilMs) return { kind: "pending" };
          if (outcome === "bound") await woken;
          continue;
        }
        row = isNew ? await look(request, known) : undefined;
        if (!row) {
          if (outcome.kind === "thrown") throw outcome.error;
          // A row may still appear for the unanswered commit, so a refusal now is not the outcome of that payment.
          return known.isUnanswered && outcome.kind === "refused" ? { kind: "pending" } : outcome;
        }
      }
      const conflict = conflictWith(row, request);
      if (conflict) return { kind: "refused", error: conflict, liveUntilSec: row.valid_before };
      // Payment ids are computable by anyone, so only the payer's signature gives access to the row.
      known.isBound = true;
      known.isProven ||= row.signature === request.signature || (await isSignedByPayer(context, request));
      if (!known.isProven)
        return { kind: "refused", error: refusal("InvalidSignature", "signature", "the signature is not the payer's") };

      if (row.state === "settled") {
        if (isDeepEnough(row)) return { kind: "settled", row };
      } else if (row.state === "failed" && isFinalFailure(row)) {
        // Another authorization with the same nonce is judged separately: it may be the one that used the nonce.
        if (row.signature === request.signature) return { kind: "failed", error: failureOf(row) };
        const outcome = await accept(request, true);
        if (outcome !== "bound" && outcome !== "look" && outcome !== "unanswered") return outcome;
        continue;
      } else if (row.state === "parked" && !(await sender.reconcile(row))) {
        const refused = await rejudge(row, request, known.rejudged++);
        if (refused) return refused;
      }
      if (monotonicMs() >= untilMs) return { kind: "pending" };
      if (row.state === "settled" || row.state === "failed")
        await store.wake.wait("block", Math.min(leftMs, LOOK_AGAIN_MS));
      else await woken;
    }
  }

  /** Judges a sent payment that did not move: refuses it with the reason, or queues it once more. */
  async function rejudge(
    row: PaymentRow,
    request: PaymentRequest,
    before: number,
  ): Promise<PaymentOutcome | undefined> {
    const judgement = await judgeFresh(request);
    if (judgement.kind === "bad") return { kind: "refused", error: judgement.error, liveUntilSec: row.valid_before };
    if (judgement.kind === "used") return undefined;
    if (before > 0 || row.attempts > MAX_ATTEMPTS * 2) {
      const error = refusal("TransferFailed", "not_moved", "the token did not move the money and gave no reason");
      return { kind: "refused", error, liveUntilSec: row.valid_before };
    }
    await requeuePayment(store.db, row);
    store.wake.notify("payments");
    return undefined;
  }

  return {
    find,
    isDeepEnough,
    isFinalFailure,
    judgeFresh: (request) => limiter.run(() => judgeFresh(request)),
    pursue,
  };
}

/** Returns an error when the row was bound to something other than this request asks for. */
export function conflictWith(row: PaymentRow, request: PaymentRequest): TurnpikeError | undefined {
  if (row.state === "failed") return undefined;
  if (row.door !== request.channel)
    return refusal("PayloadConflict", "other_door", "this payment was accepted through another channel");
  const isSame =
    row.resource_hash === request.resourceHash &&
    row.pay_to === request.authorization.to &&
    row.amount === request.authorization.value.toString();
  if (isSame) return undefined;
  return refusal(
    "PayloadConflict",
    "other_contents",
    "this payment was accepted with another payee, amount or resource",
  );
}

export const alreadyGranted = (): TurnpikeError =>
  refusal("PayloadConflict", "granted", "this payment is already granted to another purchase");

export function failureOf(row: PaymentRow): TurnpikeError {
  const code = isErrorCode(row.fail_code) ? row.fail_code : "PaymentExpired";
  return new TurnpikeError(code, undefined, { reason: row.fail_reason ?? "expired" });
}
