/**
 * Has one signed authorization settled by its Facilitator: posts the very same request until the outcome is known, or
 * patience ends and the ledger holds it. Signs nothing.
 */
import type { FacilitatorClient } from "../../facilitator/client";
import { type Hex, isTurnpikeError, PaymentPending, type PaymentProof, TurnpikeError } from "../../protocol";
import type { AgentContext } from "../core/context";
import { backoffMs, Patience, type PaymentEventType } from "../core/effects";
import { believedTimeSec, type Facilitator, refusalBeforeWork, waitMsOf } from "../core/facilitators";
import type { Book } from "../ledger/ledger";
import type { PaymentEntry } from "../ledger/ledger-store";
import { faultOfStoredProof } from "./check-proof";
import { askForProof, firstSoundProof, withProof } from "./fetch-proof";
import { releaseUnused } from "./late";
import { isOutage, outcomeOf } from "./outcome";
import { type PaymentReceipt, receiptFor } from "./receipt";

/** One payment that the ledger knows, without its secrets. */
export interface PaymentView extends PaymentReceipt {
  readonly state: PaymentEntry["state"];
  /** when its budget was reserved, unix seconds */
  readonly atSec: number;
}

const viewOf = (entry: PaymentEntry): PaymentView => ({
  ...receiptFor(entry, false),
  state: entry.state,
  atSec: entry.atSec,
});

/** Oldest first. */
export async function payments(context: AgentContext): Promise<PaymentView[]> {
  return (await context.book()).payments().map(viewOf);
}

/**
 * Asks once for the outcome of every payment that is not known to have settled, as after a restart. What has settled is
 * presented by the next call for the same request; what can never move money gives its budget back.
 */
export async function settleHeld(context: AgentContext): Promise<PaymentView[]> {
  const book = await context.book();
  const isOpen = (entry: PaymentEntry) => entry.state === "signed" || (entry.state === "settled" && !isProven(entry));
  const isProven = (entry: PaymentEntry) =>
    entry.proof !== undefined && faultOfStoredProof(context, entry, entry.proof) === undefined;
  const held = book.payments().filter((entry) => isOpen(entry) && (entry.signedPayment ?? entry.header));
  const views: PaymentView[] = [];
  for (const { id } of held) {
    if (!book.take(id)) continue;
    try {
      const entry = book.payment(id);
      if (entry && isOpen(entry)) await askOutcome(context, book, entry);
    } catch (error) {
      // Still unknown, or refused: it stays held, which is what its view says.
      if (!isTurnpikeError(error)) throw error;
    } finally {
      book.leave(id);
    }
    const now = book.payment(id);
    if (now) views.push(viewOf(now));
  }
  return views;
}

/** A standard payment has no Facilitator of the agent's: only its own RPC can say anything. */
const askOutcome = (context: AgentContext, book: Book, entry: PaymentEntry): Promise<unknown> =>
  entry.dialect === "turnpike"
    ? settle(context, { book, entry, resumed: true, signal: undefined })
    : releaseUnused(context, book, entry);

/**
 * Stops presenting a payment that the provider will not serve. Its amount stays counted against the budget: the money
 * may have moved.
 */
export async function giveUp(context: AgentContext, paymentId: Hex): Promise<void> {
  const book = await context.book();
  const entry = book.payment(paymentId);
  if (!entry) throw new TurnpikeError("NotFound", "This agent's ledger holds no such payment.");
  if (entry.state !== "signed" && entry.state !== "settled") return;
  if (!book.take(paymentId)) throw new TurnpikeError("PaymentPending", "Another call has this payment in work.");
  try {
    const { signedPayment: _a, header: _b, proof, ...kept } = entry;
    await book.put({ ...kept, ...(proof ? { transaction: proof.transaction as Hex } : {}), state: "served" });
  } finally {
    book.leave(paymentId);
  }
}

export type Settlement =
  | { readonly kind: "settled"; readonly entry: PaymentEntry }
  /** it can never move money, or nothing more than its budget still counts */
  | { readonly kind: "dead"; readonly error: TurnpikeError };

const MAX_TURNS = 60;

export interface SettleJob {
  readonly book: Book;
  readonly entry: PaymentEntry;
  readonly resumed: boolean;
  readonly signal: AbortSignal | undefined;
  /** whether no Facilitator was given this authorization before; default false */
  readonly isFirstPost?: boolean;
}

/**
 * @throws PaymentPending when the outcome stays unknown; the Facilitator's refusal when it took nothing on. In both
 * cases the authorization and its budget stay in the ledger: money may still move until its window ends.
 */
export async function settle(context: AgentContext, job: SettleJob): Promise<Settlement> {
  const { book, signal } = job;
  const entry = await withoutUnsoundProof(context, book, job.entry);
  if (entry.proof) return { kind: "settled", entry };
  if (!entry.signedPayment) throw held(entry, "the ledger holds its authorization no more");
  const { effects, facilitators } = context;
  const named = facilitators.find(entry.facilitator);
  const pursuit: Pursuit = { job, named, others: facilitators.inOrder(named).filter((each) => each !== named), entry };
  if (!named && !(await mayHaveMoved(context, pursuit))) {
    throw held(entry, "the Facilitator it was signed for is not configured any more");
  }
  const patience = new Patience({ budgetMs: effects.limits.settleMs, turns: MAX_TURNS, effects, signal });
  emit(context, "payment.submitted", job);
  for (let turn = 0; ; turn++) {
    const step = named
      ? await askNamed(context, pursuit, { facilitator: named, isFirst: turn === 0 })
      : ((await askOthers(context, pursuit)) ?? NOBODY);
    if (step.kind !== "wait") return step;
    if (await patience.wait(step.waitMs ?? backoffMs(turn))) continue;
    const vouched = named && !step.othersAsked ? await askOthers(context, pursuit) : undefined;
    if (vouched) return vouched;
    emit(context, "payment.held", job);
    throw held(entry, step.why, step.cause);
  }
}

/** One payment while its outcome is sought: from the Facilitator it was signed for, and where that fails from others. */
interface Pursuit {
  readonly job: SettleJob;
  readonly named: Facilitator | undefined;
  readonly others: readonly Facilitator[];
  /** as the ledger holds it now */
  entry: PaymentEntry;
}

interface Wait {
  readonly kind: "wait";
  /** ms; undefined: the usual backoff */
  readonly waitMs?: number;
  /** why the outcome is unknown, as a clause */
  readonly why: string;
  readonly cause?: unknown;
  readonly othersAsked?: boolean;
}

const NOBODY: Wait = {
  kind: "wait",
  why: "the Facilitator it was signed for is not configured any more, and no other one returns its proof",
};

/** A stored proof that is not sound goes: it was accepted unchecked, or the ledger was damaged. */
async function withoutUnsoundProof(context: AgentContext, book: Book, entry: PaymentEntry): Promise<PaymentEntry> {
  if (entry.proof && faultOfStoredProof(context, entry, entry.proof) === undefined) return entry;
  if (!entry.proof && entry.state === "signed") return entry;
  const { proof: _unsound, ...kept } = entry;
  const open: PaymentEntry = { ...kept, state: "signed", proofSeen: true };
  await book.put(open);
  return open;
}

async function askNamed(
  context: AgentContext,
  pursuit: Pursuit,
  { facilitator, isFirst }: { readonly facilitator: Facilitator; readonly isFirst: boolean },
): Promise<Settlement | Wait> {
  const { job } = pursuit;
  const answer = await askForProof(context, facilitator, { entry: pursuit.entry, signal: job.signal });
  switch (answer.kind) {
    case "proof":
      return keepProof(context, pursuit, answer.proof);
    case "pending":
      if (isFirst) emit(context, "payment.pending", job);
      return { kind: "wait", waitMs: clamp(answer.retryAfterSec, 100, 5_000), why: SAYS_NOTHING };
    case "unavailable": {
      const { error } = answer;
      const refusal = refusalBeforeWork(error);
      if (refusal && isFirst && job.isFirstPost) {
        emit(context, "payment.held", job);
        throw notSubmitted(pursuit.entry, refusal, error);
      }
      if (refusal) return { kind: "wait", waitMs: waitMsOf(error, 100), why: SAYS_NOTHING, cause: error };
      const waitMs = error.retryAfterSec === undefined ? {} : { waitMs: clamp(error.retryAfterSec, 0, 10_000) };
      return { kind: "wait", ...waitMs, why: SAYS_NOTHING, cause: error };
    }
    case "unsound": {
      const isNew = !pursuit.entry.proofSeen;
      if (isNew) {
        pursuit.entry = { ...pursuit.entry, proofSeen: true };
        await job.book.put(pursuit.entry);
      }
      const why = `the Facilitator ${facilitator.url} returned a proof ${answer.fault}`;
      return ((isNew || isFirst) && (await askOthers(context, pursuit))) || { kind: "wait", why };
    }
    case "refused":
      return judgeRefusal(context, pursuit, facilitator.client, answer.error);
  }
}

const SAYS_NOTHING = "the Facilitator does not say how it ended";

const clamp = (seconds: number, minMs: number, maxMs: number): number =>
  Math.min(Math.max(seconds * 1_000, minMs), maxMs);

/**
 * The proof from another configured Facilitator, which finds the transfer on chain. Asked only for what may have moved:
 * otherwise it would settle a payment that the provider expects from the Facilitator of its own.
 */
async function askOthers(context: AgentContext, pursuit: Pursuit): Promise<Settlement | undefined> {
  const { job, others, entry } = pursuit;
  if (others.length === 0 || !(await mayHaveMoved(context, pursuit))) return undefined;
  const proof = await firstSoundProof(context, others, { entry, signal: job.signal });
  return proof && keepProof(context, pursuit, proof);
}

/** Whether a Facilitator has said so, or the agent's own RPC says so. */
async function mayHaveMoved(context: AgentContext, { entry }: Pursuit): Promise<boolean> {
  const nonce = entry.signedPayment?.authorization.nonce as Hex;
  if (entry.proofSeen) return true;
  const isUsed = context.chainOf(entry.chainId)?.isNonceUsed(entry.token, entry.payer, nonce);
  return (await isUsed?.catch(notKnown)) ?? false;
}

async function keepProof(context: AgentContext, { job, entry }: Pursuit, proof: PaymentProof): Promise<Settlement> {
  const settled = withProof(entry, proof);
  await job.book.put(settled);
  emit(context, "payment.settled", job);
  return { kind: "settled", entry: settled };
}

function held(entry: PaymentEntry, why: string, cause?: unknown): PaymentPending {
  return new PaymentPending(
    `The outcome of payment ${entry.id} is not known: ${why}. It is kept, and presented again.`,
    {
      details: { paymentId: entry.id },
      ...(cause === undefined ? {} : { cause }),
      ...(isTurnpikeError(cause) && cause.retryAfterSec !== undefined ? { retryAfterSec: cause.retryAfterSec } : {}),
    },
  );
}

function notSubmitted(entry: PaymentEntry, { code }: TurnpikeError, cause: TurnpikeError): TurnpikeError {
  const { retryAfterSec } = cause;
  const when = retryAfterSec === undefined ? "later" : `in ${retryAfterSec} s`;
  const why = code === "RateLimited" ? "rate limit refused" : "address has no route for";
  return new TurnpikeError(
    code,
    `The Facilitator's ${why} payment ${entry.id}, and nothing was submitted. Repeat the call ${when}: it presents the same payment.`,
    {
      cause,
      details: { paymentId: entry.id },
      ...(retryAfterSec === undefined ? {} : { retryAfterSec }),
    },
  );
}

/**
 * A refusal ends the purchase only when the authorization can move nothing any more. Its budget is free again when the
 * agent's own RPC says that nothing was moved; a Facilitator's word is not enough for that, since it may have moved it.
 */
async function judgeRefusal(
  context: AgentContext,
  pursuit: Pursuit,
  client: FacilitatorClient,
  error: TurnpikeError,
): Promise<Settlement> {
  const { job, entry } = pursuit;
  const { signedPayment: _worthless, ...ended } = entry;
  const chain = context.chainOf(entry.chainId);
  const isOver = chain
    ? (await outcomeOf(context, entry)) === "unused"
    : await isOverByWord(context, entry, client).catch(notKnown);
  if (isOver) {
    await job.book.put({ ...ended, state: chain ? "released" : "served" });
    emit(context, chain ? "payment.released" : "payment.held", job);
    return { kind: "dead", error };
  }
  const vouched = await askOthers(context, pursuit);
  if (vouched) return vouched;
  emit(context, "payment.held", job);
  throw error;
}

function notKnown(error: unknown): false {
  if (isOutage(error)) return false;
  throw error;
}

/** The window is over by a clock that is believed, and the Facilitator does not say that it still works on it, or paid. */
async function isOverByWord(context: AgentContext, entry: PaymentEntry, client: FacilitatorClient): Promise<boolean> {
  const { chainClock, facilitators, networks } = context;
  // Whoever has returned a proof has said that it paid; taking it back is no evidence.
  if (entry.proofSeen) return false;
  const status = await client.payment(entry.id);
  if (status.kind !== "found" || status.value.status === "settled" || status.value.status === "pending") return false;
  if (chainClock) return chainClock.nowSec() > entry.validBeforeSec;
  const account = await facilitators.find(entry.facilitator)?.account(entry.payer, entry.token);
  if (!account) return false;
  return believedTimeSec(account.chainTimeSec, entry.chainId, networks) > entry.validBeforeSec;
}

export function emit(
  context: AgentContext,
  type: PaymentEventType,
  { entry, resumed }: { readonly entry: PaymentEntry; readonly resumed: boolean },
): void {
  const { id, amount, payTo } = entry;
  context.effects.emit({ type, paymentId: id, amount: BigInt(amount), payTo, resumed });
}
