/**
 * Follows one claim to its fate, whichever door it came through: takes it in, waits for the chain, judges afresh what
 * did not move. Asked the same thing twice, it gives the same answer and moves nothing twice.
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
import { type Acceptance, type Claim, refusal } from "./claim";
import { findEvidence } from "./evidence";
import type { Intake } from "./intake";
import { balanceAt, isSignedByPayer, type JudgeContext, type Judgement, judge } from "./judge";
import { rebindPayment, requeuePayment } from "./ledger";
import { MAX_ATTEMPTS, type Sender } from "./sender";

export interface PaymentProcessor {
  find(paymentId: Hex): Promise<PaymentRow | undefined>;
  /** Whether the chain still has its block, as deep as its amount asks for. */
  isDeepEnough(row: PaymentRow): boolean;
  /** Whether a failed payment can never move money, whatever becomes of the newest blocks. */
  isFinalFailure(row: PaymentRow): boolean;
  /** @throws Unavailable when the chain cannot be asked, or too many wait already */
  judgeFresh(claim: Claim): Promise<Judgement>;
  /** @throws Unavailable when the chain cannot be asked and nothing is known yet */
  pursue(claim: Claim, options: { readonly waitMs: number }): Promise<PaymentOutcome>;
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

/** What became of a claim, whichever door it came through. */
export type PaymentOutcome =
  | { readonly kind: "settled"; readonly row: PaymentRow }
  | { readonly kind: "pending" }
  | { readonly kind: "failed"; readonly error: TurnpikeError }
  | { readonly kind: "refused"; readonly error: TurnpikeError; readonly liveUntilSec?: number };

/** unanswered: the connection was lost around the commit. Binding again changes nothing where the row is there. */
type Taken = "bound" | "look" | "unanswered";

function unanswered(error: unknown): "unanswered" {
  if (!isOutcomeUnknown(error)) throw error;
  return "unanswered";
}

/** What one request has found out about its claim so far. */
interface Known {
  /** its signature is the payer's */
  isProven: boolean;
  /** a row stands for it, or a commit that would write one was sent */
  isBound: boolean;
  /** such a commit was not answered: the row may be there or not */
  isUnanswered: boolean;
  rejudged: number;
  /** `writes` of the projection when the row was last read */
  lookedAt: number;
}

const NOTHING_KNOWN: Known = {
  isProven: false,
  isBound: false,
  isUnanswered: false,
  rejudged: 0,
  lookedAt: Number.POSITIVE_INFINITY,
};

/** Whoever does not wait still gets what can be known at once. */
const MIN_ANSWER_MS = 1_000;

/** Without having been woken: the change may have been made by a process whose hint was lost. */
const LOOK_AGAIN_MS = 5_000;

const BEHIND_RETRY_SEC = 2;

/** During an outage of the database: a commit may have happened, so the row is looked for until the time is up. */
const OUTAGE_LOOK_MS = 500;

export function createPaymentProcessor(options: PaymentProcessorOptions): PaymentProcessor {
  const { config, store, relayer, indexer, projection, sender, intake, context, onStep, monotonicMs } = options;
  const { chainId } = config;

  const find = intake.find;
  const limiter = createAdmissionLimiter({ maxWaiting: config.maxIntake, maxAgeMs: config.maxQueueAgeMs, monotonicMs });

  /** Blocks that the chain has lost since do not count. */
  const height = (): number => Math.min(indexer.head()?.number ?? indexer.applied(), indexer.keptTo());

  function isDeepEnough(row: PaymentRow): boolean {
    if (row.block_number !== null && row.block_number > indexer.keptTo()) return false;
    const token = findToken(config, row.token as Address);
    const isLarge = token !== undefined && BigInt(row.amount) >= token.largeAmount;
    if (!isLarge) return true;
    return height() - (row.block_number ?? height()) + 1 >= config.largeConfirmations;
  }

  const isFinal = (blockNumber: number): boolean => height() - blockNumber >= config.finalityDepth;

  /** What a log has ended is not over before that log is final: its block may go, and the money may move then. */
  function isFinalFailure(row: PaymentRow): boolean {
    return row.fail_reason === "expired" || row.block_number === null || isFinal(row.block_number);
  }

  /** Nothing more is taken in while what was taken in cannot be sent. */
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

  async function judgeFresh(claim: Claim): Promise<Judgement> {
    const first = await judge(context, claim);
    if (first.kind !== "bad" || first.error.reason !== "funds") return first;
    // The money may stand in a block that is not applied yet.
    await indexer.catchUp();
    const second = await judge(context, claim);
    if (second.kind !== "bad" || second.error.reason !== "funds") return second;
    // Still not, since whoever reads the chain is behind, or dead: that is no word about the payer.
    const { from, value } = claim.authorization;
    if ((await balanceAt(relayer, claim.token.address, from, -1)) < value) return second;
    throw refusal("Unavailable", "busy", "the block that brought the payer's money is not read yet", {
      retryAfterSec: BEHIND_RETRY_SEC,
    });
  }

  /** Takes in a claim that no live row stands for, as far as is known. "look": there is a row to look at now. */
  async function accept(claim: Claim, isRebinding: boolean): Promise<PaymentOutcome | Taken> {
    const closed = busy() ?? sender.failedSpends.refusalOf(claim);
    if (closed) return { kind: "refused", error: closed };
    return limiter.run(() => admit(claim, isRebinding));
  }

  async function admit(claim: Claim, isRebinding: boolean): Promise<PaymentOutcome | Taken> {
    const judgement = await judgeFresh(claim);
    if (judgement.kind === "bad") return { kind: "refused", error: judgement.error };
    if (judgement.kind === "used") {
      if (!isRebinding && (await find(claim.paymentId))) return "look";
      return (await adopt(claim, isRebinding)) ?? "look";
    }
    const acceptance: Acceptance = { chainId, claim, state: "queued", ...judgement };
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

  /** The nonce is used and no row knows of it: of a native payment the chain's own logs are as good as ours. */
  async function adopt(claim: Claim, isRebinding: boolean): Promise<PaymentOutcome | undefined> {
    await indexer.catchUp();
    const { from: payer, to, value, nonce } = claim.authorization;
    const query = { paymentId: claim.paymentId, token: claim.token.address, payer, nonce };
    const evidence = await findEvidence({ config, relayer }, query, indexer.applied());
    const isOurs = evidence.kind === "transfer" && evidence.to === to && evidence.amount === value;
    if (evidence.kind === "none") return { kind: "pending" };
    if (!isOurs || claim.door === "settle") {
      const why =
        evidence.kind === "cancelled" ? "the authorization was cancelled" : "the authorization was used already";
      const error = refusal("PaymentNotAllowed", "nonce_used", why);
      if (isFinal(evidence.blockNumber)) return { kind: "failed", error };
      return claim.door === "settle" ? { kind: "refused", error } : { kind: "pending" };
    }
    const acceptance: Acceptance = {
      chainId,
      claim,
      state: "parked",
      hasCode: false,
      balance: UINT256_MAX,
      atBlock: indexer.applied(),
    };
    if (isRebinding) await rebindPayment(store, acceptance);
    else await intake.bind(acceptance);
    const row = await find(claim.paymentId);
    if (row) await sender.reconcile(row);
    return undefined;
  }

  /** Answers in time, whatever the work waits for: it goes on, and whoever asks again finds its outcome. */
  function pursue(claim: Claim, { waitMs }: { readonly waitMs: number }): Promise<PaymentOutcome> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => resolve({ kind: "pending" }), Math.max(waitMs, MIN_ANSWER_MS));
      follow(claim, waitMs)
        .then(resolve, reject)
        .finally(() => clearTimeout(timer));
    });
  }

  /** What is known already outlives an outage of the database; of what nothing is known the outage is the answer. */
  async function follow(claim: Claim, waitMs: number): Promise<PaymentOutcome> {
    const untilMs = monotonicMs() + waitMs;
    const known: Known = { ...NOTHING_KNOWN };
    for (;;) {
      try {
        return await followOn(claim, untilMs, known);
      } catch (error) {
        if (!known.isBound || !isDatabaseOutage(error)) throw error;
        if (monotonicMs() >= untilMs) return { kind: "pending" };
        await store.wake.wait(`payment:${claim.paymentId}`, OUTAGE_LOOK_MS);
      }
    }
  }

  async function look(claim: Claim, known: Known): Promise<PaymentRow | undefined> {
    const row = await find(claim.paymentId);
    known.lookedAt = projection.writes();
    return row;
  }

  async function followOn(claim: Claim, untilMs: number, known: Known): Promise<PaymentOutcome> {
    for (;;) {
      const leftMs = Math.max(0, untilMs - monotonicMs());
      const woken = store.wake.wait(`payment:${claim.paymentId}`, Math.min(leftMs, LOOK_AGAIN_MS));
      // Nearly every payment is asked for once: what nobody has asked for lately is judged first, and then looked for.
      const isNew = intake.isNew(claim.paymentId);
      // What was settled before this request looked, another process may have taken back: then the row alone counts.
      const settled = projection.settledInLastBlock(claim.paymentId, known.lookedAt);
      let row = settled ?? (isNew ? undefined : await look(claim, known));
      if (!row) {
        // That this process cannot judge it now is no answer where another one has taken it in.
        const fate = await accept(claim, false).catch((error: unknown) => ({ kind: "thrown" as const, error }));
        known.lookedAt = projection.writes();
        if (fate === "bound" || fate === "look" || fate === "unanswered") {
          known.isProven = true;
          known.isBound = true;
          known.isUnanswered ||= fate === "unanswered";
          if (fate === "look") continue;
          if (monotonicMs() >= untilMs) return { kind: "pending" };
          if (fate === "bound") await woken;
          continue;
        }
        row = isNew ? await look(claim, known) : undefined;
        if (!row) {
          if (fate.kind === "thrown") throw fate.error;
          // A row may yet appear: what speaks against this claim now is no word about that one.
          return known.isUnanswered && fate.kind === "refused" ? { kind: "pending" } : fate;
        }
      }
      const conflict = conflictWith(row, claim);
      if (conflict) return { kind: "refused", error: conflict, liveUntilSec: row.valid_before };
      // Ids can be computed by anyone: only the payer's own signature opens what stands under one.
      known.isBound = true;
      known.isProven ||= row.signature === claim.signature || (await isSignedByPayer(context, claim));
      if (!known.isProven)
        return { kind: "refused", error: refusal("InvalidSignature", "signature", "the signature is not the payer's") };

      if (row.state === "settled") {
        if (isDeepEnough(row)) return { kind: "settled", row };
      } else if (row.state === "failed" && isFinalFailure(row)) {
        // Another authorization under the same nonce is judged by itself: it may be the one that took the nonce.
        if (row.signature === claim.signature) return { kind: "failed", error: failureOf(row) };
        const fate = await accept(claim, true);
        if (fate !== "bound" && fate !== "look" && fate !== "unanswered") return fate;
        continue;
      } else if (row.state === "parked" && !(await sender.reconcile(row))) {
        const refused = await rejudge(row, claim, known.rejudged++);
        if (refused) return refused;
      }
      if (monotonicMs() >= untilMs) return { kind: "pending" };
      if (row.state === "settled" || row.state === "failed")
        await store.wake.wait("block", Math.min(leftMs, LOOK_AGAIN_MS));
      else await woken;
    }
  }

  /** What was sent and did not move: refused with what is in its way, or sent once more. */
  async function rejudge(row: PaymentRow, claim: Claim, before: number): Promise<PaymentOutcome | undefined> {
    const judgement = await judgeFresh(claim);
    if (judgement.kind === "bad") return { kind: "refused", error: judgement.error, liveUntilSec: row.valid_before };
    if (judgement.kind === "used") return undefined;
    if (before > 0 || row.attempts > MAX_ATTEMPTS * 2) {
      const error = refusal(
        "TransferFailed",
        "not_moved",
        "the token did not move the money, for no reason that it tells",
      );
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
    judgeFresh: (claim) => limiter.run(() => judgeFresh(claim)),
    pursue,
  };
}

/** Whether the row was bound to what this claim asks for; a claim for anything else is a conflict. */
export function conflictWith(row: PaymentRow, claim: Claim): TurnpikeError | undefined {
  if (row.state === "failed") return undefined;
  if (row.door !== claim.door)
    return refusal("PayloadConflict", "other_door", "this payment was accepted through another door");
  const isSame =
    row.resource_hash === claim.resourceHash &&
    row.pay_to === claim.authorization.to &&
    row.amount === claim.authorization.value.toString();
  if (isSame) return undefined;
  return refusal(
    "PayloadConflict",
    "other_contents",
    "this payment was accepted with another payee, amount or resource",
  );
}

export const alreadyGranted = (): TurnpikeError =>
  refusal("PayloadConflict", "granted", "this payment was granted to another purchase, and pays for nothing else");

export function failureOf(row: PaymentRow): TurnpikeError {
  const code = isErrorCode(row.fail_code) ? row.fail_code : "PaymentExpired";
  return new TurnpikeError(code, undefined, { reason: row.fail_reason ?? "expired" });
}
