/**
 * Has one signed authorization settled by its Facilitator: posts the very same request until the outcome is known, or
 * patience ends and the ledger holds it. Signs nothing.
 */
import type { FacilitatorClient } from "../facilitator";
import {
  findNetwork,
  isTurnpikeError,
  PaymentPending,
  type PaymentProof,
  proofToWire,
  sameAddress,
  type TurnpikeError,
  Unavailable,
} from "../protocol";
import type { Book } from "./book";
import type { AgentContext } from "./context";
import { backoffMs, Patience } from "./effects";
import type { PaymentEventType } from "./events";
import type { PaymentEntry } from "./ledger";

export type Settlement =
  | { readonly kind: "settled"; readonly entry: PaymentEntry }
  /** it can never move money: its budget is free again */
  | { readonly kind: "dead"; readonly error: TurnpikeError };

const MAX_TURNS = 60;

export interface SettleJob {
  readonly book: Book;
  readonly entry: PaymentEntry;
  readonly resumed: boolean;
  readonly signal: AbortSignal | undefined;
}

/**
 * @throws PaymentPending when the outcome stays unknown; the Facilitator's refusal when it took nothing on. In both
 * cases the authorization and its budget stay in the ledger: money may still move until its window ends.
 */
export async function settle(context: AgentContext, job: SettleJob): Promise<Settlement> {
  const { book, entry, signal } = job;
  if (entry.proof) return { kind: "settled", entry };
  const facilitator = context.facilitators.find(entry.facilitator);
  if (!facilitator || !entry.signedPayment) {
    throw held(entry, "the Facilitator it was signed for is not configured any more");
  }
  const { effects } = context;
  const { limits } = effects;
  const patience = new Patience({ budgetMs: limits.settleMs, turns: MAX_TURNS, effects, signal });
  emit(context, "payment.submitted", job);
  for (let turn = 0; ; turn++) {
    let waitMs = backoffMs(turn);
    let why: unknown;
    try {
      const outcome = await facilitator.client.authorize(entry.signedPayment, { signal });
      if (outcome.kind === "settled") {
        const settled = settledEntry(entry, outcome.proof, context);
        await book.put(settled);
        emit(context, "payment.settled", job);
        return { kind: "settled", entry: settled };
      }
      if (outcome.kind === "refused") return await judgeRefusal(context, job, facilitator.client, outcome.error);
      waitMs = Math.max(100, Math.min(outcome.retryAfterSec * 1_000, 5_000));
      if (turn === 0) emit(context, "payment.pending", job);
    } catch (error) {
      signal?.throwIfAborted();
      if (!isTurnpikeError(error) || error.code !== "Unavailable") throw error;
      waitMs = error.retryAfterSec === undefined ? waitMs : Math.min(error.retryAfterSec * 1_000, 10_000);
      why = error;
    }
    if (await patience.wait(waitMs)) continue;
    emit(context, "payment.held", job);
    throw held(entry, "the Facilitator does not say how it ended", why);
  }
}

function held(entry: PaymentEntry, why: string, cause?: unknown): PaymentPending {
  return new PaymentPending(
    `The outcome of payment ${entry.id} is not known: ${why}. It is kept, and presented again.`,
    {
      details: { paymentId: entry.id },
      ...(cause === undefined ? {} : { cause }),
    },
  );
}

/** @throws Unavailable when the proof is not of this payment: then nothing is known of how it ended */
function settledEntry(entry: PaymentEntry, proof: PaymentProof, { networks }: AgentContext): PaymentEntry {
  const signed = entry.signedPayment;
  const matches =
    findNetwork(proof.network, networks)?.chainId === entry.chainId &&
    sameAddress(proof.token, entry.token) &&
    sameAddress(proof.payer, entry.payer) &&
    sameAddress(proof.payTo, entry.payTo) &&
    proof.amount === BigInt(entry.amount) &&
    proof.memo === signed?.memo &&
    proof.resource === entry.resource;
  if (!matches) throw new Unavailable("The Facilitator answered with a proof of another payment.");
  return { ...entry, state: "settled", proof: proofToWire(proof) };
}

/** A refusal frees the budget only when the authorization is proven worthless: its window over, and nothing moved. */
async function judgeRefusal(
  context: AgentContext,
  job: SettleJob,
  client: FacilitatorClient,
  error: TurnpikeError,
): Promise<Settlement> {
  const { book, entry } = job;
  if (await isProvenWorthless(context, entry, client)) {
    await book.put({ ...entry, state: "released", signedPayment: undefined });
    emit(context, "payment.released", job);
    return { kind: "dead", error };
  }
  emit(context, "payment.held", job);
  throw error;
}

async function isProvenWorthless(
  context: AgentContext,
  entry: PaymentEntry,
  client: FacilitatorClient,
): Promise<boolean> {
  const status = await client.payment(entry.id).catch(() => undefined);
  if (status?.kind !== "found" || status.value.status === "settled" || status.value.status === "pending") return false;
  const chain = context.chainOf(entry.chainId);
  if (chain) {
    const [nowSec, isUsed] = await Promise.all([
      chain.timeSec(),
      chain.isNonceUsed(entry.token, entry.payer, entry.signedPayment?.authorization.nonce as `0x${string}`),
    ]);
    return nowSec > entry.validBeforeSec && !isUsed;
  }
  return status.value.status === "failed" || (await isWindowOver(context, entry));
}

async function isWindowOver(context: AgentContext, entry: PaymentEntry): Promise<boolean> {
  if (context.chainClock) return context.chainClock.nowSec() > entry.validBeforeSec;
  const account = await context.facilitators.find(entry.facilitator)?.account(entry.payer, entry.token);
  return account !== undefined && account.chainTimeSec > entry.validBeforeSec;
}

export function emit(
  context: AgentContext,
  type: PaymentEventType,
  { entry, resumed }: { readonly entry: PaymentEntry; readonly resumed: boolean },
): void {
  const { id, amount, payTo } = entry;
  context.effects.emit({ type, paymentId: id, amount: BigInt(amount), payTo, resumed });
}
