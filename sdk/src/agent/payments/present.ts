/**
 * Presents one payment to the provider until it is served: the same bytes every time, never another signature. Knows
 * neither quotes nor budgets.
 */
import {
  ERRORS,
  type Hex,
  InvalidPaymentProof,
  isTurnpikeError,
  PaymentAlreadyUsed,
  PROOF_LIFE_SEC,
  ReceiptRejected,
  TurnpikeError,
  Unavailable,
} from "../../protocol";
import type { AgentContext } from "../core/context";
import { backoffMs, emitPayment, eventFacts, RetryBudget } from "../core/effects";
import type { AgentLedger } from "../ledger/ledger";
import { movementOf, type PaymentEntry } from "../ledger/ledger-store";
import { mayMove } from "./authorization-outcome";
import type { Answer, Channel, PurchaseTarget, Rejected } from "./channel";
import { confirmCharge, isChargeOpen, misreportedField } from "./charge";
import { methodOfEntry } from "./methods";
import { receiptFor } from "./receipt";
import { gapOf, judgeReceipt } from "./signed-statements";

export interface PresentJob<R> {
  readonly ledger: AgentLedger;
  readonly entry: PaymentEntry;
  readonly target: PurchaseTarget;
  readonly channel: Channel<R>;
  readonly resumed: boolean;
  /** the authorization's window is over: a rejection is not retried, since nothing can settle any more */
  readonly isLate: boolean;
}

export type Presented<R> =
  | { readonly kind: "answered"; readonly response: R }
  /** the provider keeps asking to retry later, and says nothing about the payment */
  | { readonly kind: "postponed"; readonly answer: Answer<R> }
  /** the chain gave up the block that held the payment: the same authorization has to settle again */
  | { readonly kind: "reversed" }
  | Rejected;

/** The payment has bought its response: no other proof of it buys another. */
const ALREADY_USED = "already_used";

/** The payment has bought another request: it buys nothing here. */
const ALREADY_GRANTED = "payment_already_granted";

/** Its handler failed, and the provider has it refunded: it buys nothing more. */
const REFUNDED: ReadonlySet<string | undefined> = new Set(["refunded", "refund_pending"]);

/** Reasons that are final for the payment, whatever proves it. */
export const isSpent = (reason: string | undefined): boolean =>
  reason === ALREADY_USED || reason === ALREADY_GRANTED || REFUNDED.has(reason);

/** Returns whether the payer has not approved what moves the payment: presenting it again changes nothing. */
const isUnapproved = (entry: PaymentEntry, { error }: Pick<Rejected, "error">): boolean =>
  error !== undefined && error === methodOfEntry(entry).approved?.refusal;

/** Reasons about the proof itself: the same proof would be rejected again. */
const OF_PROOF: ReadonlySet<string> = new Set([
  "facilitator",
  "signature",
  "signer_retired",
  "malformed",
  "expired",
  "memo_expired",
]);

/**
 * @throws ProofInFlight when the payment stays in use elsewhere; Unavailable when no answer arrives. The payment stays
 * in the ledger, and the next call presents it again.
 */
export async function present<R>(context: AgentContext, job: PresentJob<R>): Promise<Presented<R>> {
  const { effects } = context;
  const { channel, entry } = job;
  const { limits } = effects;
  const { signal } = job.target;
  const tries = new RetryBudget({ budgetMs: limits.settleMs, turns: limits.presentations - 1, effects, signal });
  const inFlight = new RetryBudget({ budgetMs: limits.inFlightMs, turns: 30, effects, signal });
  emitPayment(context.effects, "payment.presented", job);
  for (let turn = 0; ; turn++) {
    let answer: Answer<R>;
    try {
      answer = await channel.present(entry);
    } catch (cause) {
      signal?.throwIfAborted();
      if (isTurnpikeError(cause) && cause.code === "PaymentPending") {
        emitPayment(context.effects, "payment.held", job);
        throw cause;
      }
      if (await tries.wait(backoffMs(turn))) continue;
      const why = isTurnpikeError(cause) ? ` (${cause.message.replace(/\.$/, "")})` : "";
      throw new Unavailable(
        `The payment was made, but the provider does not answer${why}; the next call presents it again.`,
        { cause, details: factsOf(entry) },
      );
    }
    const { reading } = answer;
    switch (reading.kind) {
      case "served":
        return { kind: "answered", response: await deliver(context, job, answer) };
      case "unserved":
        return { kind: "answered", response: await answer.result(receiptFor(entry, job.resumed)) };
      case "in_flight": {
        const waitMs = answer.waitMs(1_000);
        await answer.discard();
        if (await inFlight.wait(Math.max(waitMs, 100))) continue;
        throw new TurnpikeError("ProofInFlight", undefined, { details: factsOf(entry) });
      }
      case "later":
        if (await tries.wait(answer.waitMs(backoffMs(turn)))) {
          await answer.discard();
          continue;
        }
        return { kind: "postponed", answer };
      case "rejected":
        if (reading.reason === "reversed" && entry.signedPayment) return { kind: "reversed" };
        if (job.isLate || isSpent(reading.reason) || isUnapproved(entry, reading)) return reading;
        if (entry.proof && OF_PROOF.has(reading.reason ?? "")) return reading;
        if (await tries.wait(backoffMs(turn + 1))) continue;
        return reading;
    }
  }
}

async function deliver<R>(context: AgentContext, job: PresentJob<R>, answer: Answer<R>): Promise<R> {
  const { ledger, resumed } = job;
  const { report } = answer;
  const transaction = report.transaction ?? job.entry.transaction;
  const reported = movementOf(job.entry).method === "upto" ? report.amount?.toString() : undefined;
  const signedReceipt =
    answer.signedReceipt &&
    (await judgeReceipt(context, answer.signedReceipt, {
      entry: job.entry,
      target: job.target,
      transaction: job.entry.proof?.transaction ?? transaction,
      payments: ledger.payments(),
    }));
  const presented: PaymentEntry = {
    ...job.entry,
    ...(transaction === undefined ? {} : { transaction }),
    ...(reported === undefined ? {} : { reported }),
    ...(signedReceipt === undefined ? {} : { signedReceipt }),
  };
  const served = servedEntry(presented);
  await ledger.put(served);
  const { charged } = isChargeOpen(served) ? await confirmCharge(context, ledger, served) : served;
  const entry = charged === undefined ? presented : { ...presented, charged };
  emitPayment(context.effects, "payment.served", { entry, resumed });
  const field = misreportedField(context, entry, report);
  if (field) context.effects.emit({ type: "payment.misreported", field, ...eventFacts({ entry, resumed }) });
  const result = await answer.result(receiptFor(entry, resumed));
  requireReceipt(context, { entry, answer, result, resumed });
  return result;
}

/**
 * Emits why a receipt is no evidence.
 * @throws ReceiptRejected where the policy requires one that is
 */
function requireReceipt<R>(
  { effects, policy }: AgentContext,
  {
    entry,
    answer,
    result,
    resumed,
  }: {
    readonly entry: PaymentEntry;
    readonly answer: Answer<R>;
    readonly result: R;
    readonly resumed: boolean;
  },
): void {
  const fault = entry.signedReceipt?.fault;
  if (fault !== undefined) effects.emit({ type: "receipt.faulty", fault, ...eventFacts({ entry, resumed }) });
  const gap = policy.requireReceipt && answer.isSuccess(result) ? gapOf(entry.signedReceipt) : undefined;
  if (gap === undefined) return;
  throw new ReceiptRejected(
    `The provider's receipt ${gap}. The payment was made and served: \`response\` of this error has the answer. Do not pay again.`,
    { response: result, ...(fault ? { reason: fault } : {}), details: factsOf(entry) },
  );
}

/** Returns the entry once it is served, without its evidence unless the caller's key may request it again. */
function servedEntry(entry: PaymentEntry): PaymentEntry {
  const { proof, header, signedPayment, ...kept } = entry;
  if (entry.key === undefined)
    return { ...kept, ...(proof ? { transaction: proof.transaction as Hex } : {}), state: "served" };
  return {
    ...kept,
    ...(proof ? { proof } : {}),
    ...(header ? { header } : {}),
    ...(signedPayment ? { signedPayment } : {}),
    state: "served",
  };
}

/** The error for a payment that the provider rejects, with every configured Facilitator asked for another proof. */
export async function rejection(
  context: AgentContext,
  { ledger, entry, resumed }: Pick<PresentJob<unknown>, "ledger" | "entry" | "resumed">,
  { error, reason }: Rejected,
): Promise<TurnpikeError> {
  const end = endOf(context, entry, reason);
  if (reason !== undefined && end !== undefined) {
    if (entry.state !== "served" && (await mayMove(context, entry))) {
      emitPayment(context.effects, "payment.held", { entry, resumed });
      return unconfirmed({ entry, reason, end });
    }
    await ledger.put(servedEntry(entry));
    if (reason === ALREADY_USED) return alreadyUsed(entry);
    return new InvalidPaymentProof(`The provider says that this payment ${end}; nothing more was paid.`, {
      reason,
      details: factsOf(entry),
    });
  }
  emitPayment(context.effects, "payment.held", { entry, resumed });
  const { approval } = methodOfEntry(entry);
  if (approval && isUnapproved(entry, { error })) {
    const { payer, token, id: paymentId } = entry;
    const why = "the provider refuses the payment for it; it is kept, and the next call presents it again";
    return approval.lacking({ payer, token, amount: BigInt(entry.amount), approval: undefined, why, paymentId });
  }
  if (reason === ALREADY_GRANTED) {
    // Kept: a new signature would pay twice on nothing but the provider's claim.
    return new InvalidPaymentProof(
      "The provider says that this payment has bought another request: look for the answer where it was presented first. Nothing more was paid. The next call signs no other payment; agent.giveUp(paymentId) ends this one.",
      { reason, details: factsOf(entry) },
    );
  }
  const said = error ? ` (${error}${reason ? `: ${reason}` : ""})` : "";
  return new InvalidPaymentProof(
    `The provider keeps rejecting ${paidAs(entry)}${said}. ${adviceOn(entry, reason)} The next call presents the same payment again; agent.giveUp(paymentId) ends it.`,
    { ...(reason ? { reason } : {}), details: factsOf(entry) },
  );
}

/** Creates the error for a payment that the provider calls ended, and that could still be settled after another one. */
function unconfirmed({ entry, reason, end }: { entry: PaymentEntry; reason: string; end: string }): TurnpikeError {
  return new InvalidPaymentProof(
    `The provider says that this payment ${end}, and nothing confirms that it has moved. Until its window is over, the next call presents the same payment, and signs no other; agent.giveUp(paymentId) ends it.`,
    { reason, details: factsOf(entry) },
  );
}

/** A standard payment settles at the provider, which may never have asked for that. */
const paidAs = ({ proof, state }: PaymentEntry): string =>
  proof || state !== "signed" ? "a payment that was made" : "a payment that was signed, and may not have settled";

function adviceOn({ proof }: PaymentEntry, reason: string | undefined): string {
  if (reason === "memo") {
    return "It does not recognize its own quote: its secret or its address changed, or another server answers there. Ask the provider.";
  }
  const form = proof ? `proofs of ${proof.facilitator}` : "this form of payment";
  return `Check that it accepts ${form}, and the Facilitator's status.`;
}

/** Creates the error for a payment whose answer went to an earlier attempt: a new signature would pay twice. */
function alreadyUsed(entry: PaymentEntry): PaymentAlreadyUsed {
  const again =
    entry.key === undefined
      ? "Another call for the same URL is a new purchase"
      : "Another call with the same idempotencyKey never pays";
  return new PaymentAlreadyUsed(
    `The provider says that this payment has bought its request, and holds no answer to replay; nothing more was paid. ${again}. ${ERRORS.PaymentAlreadyUsed.remedy}`,
    { reason: ALREADY_USED, details: factsOf(entry) },
  );
}

/** Returns why this payment can never be served, where the agent's own records confirm it. */
function endOf({ effects }: AgentContext, entry: PaymentEntry, reason: string | undefined): string | undefined {
  if (reason === ALREADY_USED) return "was already served for";
  if (REFUNDED.has(reason)) return "is refunded, because its request has failed; creditRefunds() looks for the money";
  // A proof lives for days after its payment: earlier, the Facilitator or the provider is wrong about it.
  const isOld = effects.clock.nowSec() >= entry.atSec + PROOF_LIFE_SEC;
  return reason === "expired" && isOld ? "was presented too late: its proof has expired" : undefined;
}

function factsOf(entry: PaymentEntry): Readonly<Record<string, string>> {
  const transaction = (entry.proof?.transaction ?? entry.transaction) as Hex | undefined;
  return { paymentId: entry.id, amount: entry.amount, payTo: entry.payTo, ...(transaction ? { transaction } : {}) };
}
