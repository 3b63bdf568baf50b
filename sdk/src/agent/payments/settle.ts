/**
 * Has one signed authorization settled by its Facilitator: posts the same request until the outcome is known, or the
 * retry budget ends and the ledger keeps it. Signs nothing.
 */
import type { PayerClient } from "../../facilitator/payer-client";
import {
  type Hex,
  isTurnpikeError,
  PaymentPending,
  type PaymentProof,
  TurnpikeError,
  Unavailable,
} from "../../protocol";
import { networkFault } from "../../protocol/exchange";
import type { AgentContext } from "../core/context";
import { backoffMs, emitPayment, RetryBudget } from "../core/effects";
import { type Facilitator, OTHER_CHAIN, plausibleTimeSec, refusalBeforeWork, waitMsOf } from "../core/facilitators";
import type { AgentLedger } from "../ledger/ledger";
import type { PaymentEntry } from "../ledger/ledger-store";
import { isOutage, outcomeOf } from "./authorization-outcome";
import { askForProof, faultOfStoredProof, firstSoundProof, withProof } from "./proofs";

export type SettleResult =
  | { readonly kind: "settled"; readonly entry: PaymentEntry }
  /** it can never move money, or nothing more than its budget still counts */
  | { readonly kind: "dead"; readonly error: TurnpikeError };

const MAX_TURNS = 60;

export interface SettleJob {
  readonly ledger: AgentLedger;
  readonly entry: PaymentEntry;
  readonly resumed: boolean;
  readonly signal: AbortSignal | undefined;
  /** whether no Facilitator was given this authorization before; default false */
  readonly isFirstPost?: boolean;
}

/**
 * One payment whose outcome is being determined: by the Facilitator it was signed for, and where that fails by others.
 */
interface SettleAttempt {
  readonly job: SettleJob;
  readonly named: Facilitator | undefined;
  readonly others: readonly Facilitator[];
  /** as the ledger holds it now */
  entry: PaymentEntry;
  /** whether no post of this authorization has found a connection so far */
  isUnreached: boolean;
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

const NO_ANSWER: Wait = {
  kind: "wait",
  why: "the Facilitator it was signed for is no longer configured, and no other one returns its proof",
};

/**
 * Settles one signed payment.
 * @throws PaymentPending when the outcome stays unknown; the Facilitator's refusal when it accepted nothing. In both
 * cases the authorization and its budget stay in the ledger: money may still move until its window ends.
 */
export async function settle(context: AgentContext, job: SettleJob): Promise<SettleResult> {
  const { ledger, signal } = job;
  const entry = await withoutUnsoundProof(context, ledger, job.entry);
  if (entry.proof) return { kind: "settled", entry };
  if (!entry.signedPayment) throw held(entry, "the ledger no longer holds its authorization");
  const { effects, facilitators } = context;
  const named = facilitators.find(entry.facilitator);
  const attempt: SettleAttempt = {
    job,
    named,
    others: facilitators.inOrder(named).filter((each) => each !== named),
    entry,
    isUnreached: job.isFirstPost === true,
  };
  if (!named && !(await mayHaveMoved(context, attempt))) {
    throw held(entry, "the Facilitator it was signed for is no longer configured");
  }
  const retries = new RetryBudget({ budgetMs: effects.limits.settleMs, turns: MAX_TURNS, effects, signal });
  emitPayment(context.effects, "payment.submitted", job);
  for (let turn = 0; ; turn++) {
    const step = named
      ? await askNamed(context, attempt, { facilitator: named, turn })
      : ((await askOthers(context, attempt)) ?? NO_ANSWER);
    if (step.kind !== "wait") return step;
    if (await retries.wait(step.waitMs ?? backoffMs(turn))) continue;
    const vouched = named && !step.othersAsked ? await askOthers(context, attempt) : undefined;
    if (vouched) return vouched;
    emitPayment(context.effects, "payment.held", job);
    throw held(entry, step.why, step.cause);
  }
}

/** Drops a stored proof that is not sound: it was accepted unchecked, or the ledger was damaged. */
async function withoutUnsoundProof(
  context: AgentContext,
  ledger: AgentLedger,
  entry: PaymentEntry,
): Promise<PaymentEntry> {
  if (entry.proof && faultOfStoredProof(context, entry, entry.proof) === undefined) return entry;
  if (!entry.proof && entry.state === "signed") return entry;
  const { proof: _unsound, ...kept } = entry;
  const open: PaymentEntry = { ...kept, state: "signed", proofSeen: true };
  await ledger.put(open);
  return open;
}

async function askNamed(
  context: AgentContext,
  attempt: SettleAttempt,
  { facilitator, turn }: { readonly facilitator: Facilitator; readonly turn: number },
): Promise<SettleResult | Wait> {
  const { job } = attempt;
  const isFirst = turn === 0;
  const answer = await askForProof(context, facilitator, { entry: attempt.entry, signal: job.signal });
  const fault = answer.kind === "unavailable" ? networkFault(answer.error) : undefined;
  attempt.isUnreached &&= fault !== undefined && NEVER_CONNECTED.has(fault);
  switch (answer.kind) {
    case "proof":
      return keepProof(context, attempt, answer.proof);
    case "pending":
      if (isFirst) emitPayment(context.effects, "payment.pending", job);
      return { kind: "wait", waitMs: clamp(answer.retryAfterSec, 100, 5_000), why: OUTCOME_UNKNOWN };
    case "unavailable": {
      const { error } = answer;
      const refusal = refusalBeforeWork(error);
      if (refusal && isFirst && job.isFirstPost) {
        emitPayment(context.effects, "payment.held", job);
        throw paymentNotSubmitted(attempt.entry, refusal, error);
      }
      if (isFirst) emitPayment(context.effects, "payment.pending", job);
      if (attempt.isUnreached && turn >= UNREACHED_TURNS) {
        emitPayment(context.effects, "payment.held", job);
        throw notReached(attempt.entry, facilitator, error);
      }
      const why = whyOf(error, facilitator);
      if (refusal) return { kind: "wait", waitMs: waitMsOf(error, 100), why, cause: error };
      const waitMs = error.retryAfterSec === undefined ? {} : { waitMs: clamp(error.retryAfterSec, 0, 10_000) };
      return { kind: "wait", ...waitMs, why, cause: error };
    }
    case "unsound": {
      const isNew = !attempt.entry.proofSeen;
      if (isNew) {
        attempt.entry = { ...attempt.entry, proofSeen: true };
        await job.ledger.put(attempt.entry);
      }
      const why = `the Facilitator ${facilitator.url} returned a proof ${answer.fault}`;
      return ((isNew || isFirst) && (await askOthers(context, attempt))) || { kind: "wait", why };
    }
    case "refused":
      return judgeRefusal(context, attempt, facilitator.client, answer.error);
  }
}

/** Network errors before a connection exists: nothing of the request was sent over it. */
const NEVER_CONNECTED: ReadonlySet<string> = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN"]);

/** A Facilitator that restarts is back within about 4 s; after that a call fails instead of waiting for minutes. */
const UNREACHED_TURNS = 4;

/** Why there was no answer: the refusal that a 5xx carries, or the network's error. */
function whyOf(error: TurnpikeError, { url }: Facilitator): string {
  const { cause } = error;
  if (isTurnpikeError(cause))
    return `the Facilitator at ${url} answers ${cause.code}: ${cause.message.replace(/\.$/, "")}`;
  const fault = networkFault(error);
  return fault === undefined
    ? `the Facilitator at ${url} gives no usable answer (${error.message.replace(/\.$/, "")})`
    : `the Facilitator at ${url} cannot be reached (${fault})`;
}

/**
 * The authorization and its budget stay in the ledger all the same: a `fetch` of the caller's, or a dispatcher that
 * repeats requests, may have sent it before.
 */
function notReached(entry: PaymentEntry, { url }: Facilitator, cause: TurnpikeError): Unavailable {
  return new Unavailable(
    `facilitators: ${url} cannot be reached (${networkFault(cause)}), so payment ${entry.id} was not submitted. Check that the Facilitator runs and that its URL is right. The next call presents the same payment; agent.giveUp(paymentId) ends it.`,
    { cause, reason: "facilitator_unreached", details: { paymentId: entry.id, facilitator: url } },
  );
}

const OUTCOME_UNKNOWN = "the Facilitator does not say how it ended";

const clamp = (seconds: number, minMs: number, maxMs: number): number =>
  Math.min(Math.max(seconds * 1_000, minMs), maxMs);

/**
 * Gets the proof from another configured Facilitator, which finds the transfer on chain. Only for what may have moved:
 * otherwise it would settle a payment that the provider expects from its own Facilitator.
 */
async function askOthers(context: AgentContext, attempt: SettleAttempt): Promise<SettleResult | undefined> {
  const { job, others, entry } = attempt;
  if (others.length === 0 || !(await mayHaveMoved(context, attempt))) return undefined;
  const proof = await firstSoundProof(context, others, { entry, signal: job.signal });
  return proof && keepProof(context, attempt, proof);
}

/** Returns whether money may have moved, by a Facilitator's answer or the agent's own RPC. */
async function mayHaveMoved(context: AgentContext, { entry }: SettleAttempt): Promise<boolean> {
  const nonce = entry.signedPayment?.authorization.nonce as Hex;
  if (entry.proofSeen) return true;
  const isUsed = context.chainOf(entry.chainId)?.isNonceUsed(entry.token, entry.payer, nonce);
  return (await isUsed?.catch(notKnown)) ?? false;
}

async function keepProof(
  context: AgentContext,
  { job, entry }: SettleAttempt,
  proof: PaymentProof,
): Promise<SettleResult> {
  const settled = withProof(entry, proof);
  await job.ledger.put(settled);
  emitPayment(context.effects, "payment.settled", job);
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

function paymentNotSubmitted(entry: PaymentEntry, { code }: TurnpikeError, cause: TurnpikeError): TurnpikeError {
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
 * Handles a refusal. It ends the purchase only when the authorization can move nothing any more. The budget is released
 * when the agent's own RPC shows that nothing moved; a Facilitator's answer does not suffice, since it may be false.
 */
async function judgeRefusal(
  context: AgentContext,
  attempt: SettleAttempt,
  client: PayerClient,
  error: TurnpikeError,
): Promise<SettleResult> {
  const { job, entry } = attempt;
  const { signedPayment: _void, ...ended } = entry;
  const chain = context.chainOf(entry.chainId);
  const isOver = chain
    ? (await outcomeOf(context, entry)) === "unused"
    : await isOverByReport(context, entry, client).catch(notKnown);
  if (isOver) {
    await job.ledger.put({ ...ended, state: chain ? "released" : "served" });
    emitPayment(context.effects, chain ? "payment.released" : "payment.held", job);
    return { kind: "dead", error };
  }
  const vouched = await askOthers(context, attempt);
  if (vouched) return vouched;
  emitPayment(context.effects, "payment.held", job);
  throw error;
}

function notKnown(error: unknown): false {
  if (isOutage(error)) return false;
  throw error;
}

/**
 * Returns whether the window is over by a plausible clock, and the Facilitator reports the payment neither pending nor
 * settled.
 */
async function isOverByReport(context: AgentContext, entry: PaymentEntry, client: PayerClient): Promise<boolean> {
  const { chainClock, facilitators, networks } = context;
  // A Facilitator that has returned a proof has reported a settlement; a later denial is no evidence.
  if (entry.proofSeen) return false;
  const status = await client.payment(entry.id);
  if (status.kind !== "found" || status.value.status === "settled" || status.value.status === "pending") return false;
  if (chainClock) return chainClock.nowSec() > entry.validBeforeSec;
  const { payer: address, token, chainId } = entry;
  const asked = facilitators.find(entry.facilitator)?.account({ address, token, chainId });
  const account = await asked?.catch((error: unknown) => {
    // It served the chain once: that it no longer does says nothing about the payment.
    if (isTurnpikeError(error) && error.reason === OTHER_CHAIN) return undefined;
    throw error;
  });
  if (!account) return false;
  return plausibleTimeSec(account.chainTimeSec, chainId, networks) > entry.validBeforeSec;
}
