/**
 * Has one signed authorization settled by its Facilitator: posts the very same request until the outcome is known, or
 * patience ends and the ledger holds it. Signs nothing.
 */
import type { FacilitatorClient } from "../facilitator";
import {
  findNetwork,
  type Hex,
  isTurnpikeError,
  PaymentPending,
  type PaymentProof,
  proofToWire,
  sameAddress,
  type TurnpikeError,
  Unavailable,
} from "../protocol";
import type { Book } from "./book";
import type { ChainReader } from "./chain-reader";
import type { AgentContext } from "./context";
import { backoffMs, Patience } from "./effects";
import type { PaymentEventType } from "./events";
import { believedTimeSec } from "./facilitators";
import type { PaymentEntry } from "./ledger";

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

/**
 * A refusal ends the purchase only when the authorization can move nothing any more. Its budget is free again when the
 * agent's own RPC says that nothing was moved; a Facilitator's word is not enough for that, since it may have moved it.
 */
async function judgeRefusal(
  context: AgentContext,
  job: SettleJob,
  client: FacilitatorClient,
  error: TurnpikeError,
): Promise<Settlement> {
  const { book, entry } = job;
  const { signedPayment: _worthless, ...ended } = entry;
  const chain = context.chainOf(entry.chainId);
  const isOver = chain ? isUnusedFor(chain, entry) : isOverByWord(context, entry, client);
  if (await isOver.catch(notKnown)) {
    await book.put({ ...ended, state: chain ? "released" : "served" });
    emit(context, chain ? "payment.released" : "payment.held", job);
    return { kind: "dead", error };
  }
  emit(context, "payment.held", job);
  throw error;
}

/** Who cannot be asked has not said that it is over. */
function notKnown(error: unknown): false {
  if (isTurnpikeError(error) && error.code === "Unavailable") return false;
  throw error;
}

/** The window is over, and the token has not seen the nonce. */
async function isUnusedFor(chain: ChainReader, entry: PaymentEntry): Promise<boolean> {
  const nonce = entry.signedPayment?.authorization.nonce as Hex;
  const [nowSec, isUsed] = await Promise.all([chain.timeSec(), chain.isNonceUsed(entry.token, entry.payer, nonce)]);
  return nowSec > entry.validBeforeSec && !isUsed;
}

/** The window is over by a clock that is believed, and the Facilitator does not say that it still works on it, or paid. */
async function isOverByWord(context: AgentContext, entry: PaymentEntry, client: FacilitatorClient): Promise<boolean> {
  const { chainClock, facilitators, networks } = context;
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
