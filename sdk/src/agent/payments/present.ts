/**
 * Presents one payment to the provider until it is served: the same header every time, never another signature.
 * Interprets each answer. Knows neither quotes nor budgets.
 */
import {
  decodeJsonHeader,
  ERRORS,
  encodeJsonHeader,
  HEADER,
  type Hex,
  InvalidPaymentProof,
  MAX_CREDENTIAL_BYTES,
  PaymentAlreadyUsed,
  PROOF_LIFE_SEC,
  parsePaymentProof,
  parseStrictJson,
  ReceiptRejected,
  TurnpikeError,
  Unavailable,
} from "../../protocol";
import type { AgentContext } from "../core/context";
import { backoffMs, type Effects, emitPayment, eventFacts, RetryBudget } from "../core/effects";
import {
  followWithoutCredential,
  isRedirect,
  MAX_ANSWER_DEPTH,
  type RequestTemplate,
  readBounded,
  retryAfterMs,
  sendOnce,
} from "../core/request";
import type { AgentLedger } from "../ledger/ledger";
import type { PaymentEntry } from "../ledger/ledger-store";
import { confirmCharge, misreportedField } from "./charge";
import { insufficientApproval } from "./permit2";
import { type PaidResponse, receiptFor, withReceipt } from "./receipt";
import { gapOf, receiptIn } from "./signed-statements";
import { settlementReportOf } from "./standard";

export interface PresentJob {
  readonly ledger: AgentLedger;
  readonly entry: PaymentEntry;
  readonly template: RequestTemplate;
  readonly headers: Readonly<Record<string, string>>;
  readonly resumed: boolean;
  /** the authorization's window is over: a rejection is not retried, since nothing can settle any more */
  readonly isLate: boolean;
}

export type Presented =
  | { readonly kind: "answered"; readonly response: PaidResponse }
  /** the provider keeps asking to retry later, and says nothing about the payment */
  | { readonly kind: "postponed"; readonly response: PaidResponse }
  /** the chain gave up the block that held the payment: the same authorization has to settle again */
  | { readonly kind: "reversed" }
  | Rejected;

/** The provider does not accept the payment as it was presented. */
export interface Rejected {
  readonly kind: "rejected";
  readonly error: string | undefined;
  readonly reason: string | undefined;
}

/** The payment has bought its response: no other proof of it buys another. */
const ALREADY_USED = "already_used";

/** The payment has bought another request: it buys nothing here. */
const ALREADY_GRANTED = "payment_already_granted";

/** Its handler failed, and the provider has it refunded: it buys nothing more. */
const REFUNDED: ReadonlySet<string | undefined> = new Set(["refunded", "refund_pending"]);
/** The payer has not approved Permit2: presenting the payment again changes nothing. */
const ALLOWANCE_REQUIRED = "permit2_allowance_required";

/** Reasons that are final for the payment, whatever proves it. */
export const isSpent = (reason: string | undefined): boolean =>
  reason === ALREADY_USED || reason === ALREADY_GRANTED || REFUNDED.has(reason);

/** Reasons about the proof itself: the same proof would be rejected again. */
const OF_PROOF: ReadonlySet<string> = new Set([
  "facilitator",
  "signature",
  "signer_retired",
  "malformed",
  "expired",
  "memo_expired",
]);

type Reading =
  /** the provider answered, and the payment is spent on this answer */
  | { readonly kind: "served" }
  /** the provider answered, and the payment is still good for another attempt */
  | { readonly kind: "unserved" }
  | Rejected
  | { readonly kind: "in_flight" }
  | { readonly kind: "later" };

const TRY_LATER: ReadonlySet<number> = new Set([408, 425, 429, 502, 503, 504]);

/**
 * @throws ProofInFlight when the payment stays in use elsewhere; Unavailable when no answer arrives. The payment stays
 * in the ledger, and the next call presents it again.
 */
export async function present(context: AgentContext, job: PresentJob): Promise<Presented> {
  const { effects } = context;
  const { template, entry } = job;
  const { limits } = effects;
  const headers = { ...job.headers, ...paymentHeader(entry) };
  const { signal } = template;
  const tries = new RetryBudget({ budgetMs: limits.settleMs, turns: limits.presentations - 1, effects, signal });
  const inFlight = new RetryBudget({ budgetMs: limits.inFlightMs, turns: 30, effects, signal });
  emitPayment(context.effects, "payment.presented", job);
  for (let turn = 0; ; turn++) {
    let response: Response;
    try {
      response = await sendOnce(effects, template, { headers, redirect: "manual" });
    } catch (cause) {
      signal?.throwIfAborted();
      if (await tries.wait(backoffMs(turn))) continue;
      throw new Unavailable(
        "The payment was made, but the provider does not answer; the next call presents it again.",
        {
          cause,
          details: factsOf(entry),
        },
      );
    }
    const reading = await readAnswer(effects, response, entry);
    switch (reading.kind) {
      case "served":
        return answered(await deliver(context, job, response));
      case "unserved":
        return answered(withReceipt(response, receiptFor(entry, job.resumed)));
      case "in_flight": {
        const waitMs = retryAfterMs(response, Date.now(), 1_000);
        await response.body?.cancel();
        if (await inFlight.wait(Math.max(waitMs, 100))) continue;
        throw new TurnpikeError("ProofInFlight", undefined, { details: factsOf(entry) });
      }
      case "later":
        if (await tries.wait(retryAfterMs(response, Date.now(), backoffMs(turn)))) {
          await response.body?.cancel();
          continue;
        }
        return { kind: "postponed", response: withReceipt(response, receiptFor(entry, job.resumed)) };
      case "rejected":
        if (reading.reason === "reversed" && entry.signedPayment) return { kind: "reversed" };
        if (job.isLate || isSpent(reading.reason) || reading.error === ALLOWANCE_REQUIRED) return reading;
        if (entry.proof && OF_PROOF.has(reading.reason ?? "")) return reading;
        if (await tries.wait(backoffMs(turn + 1))) continue;
        return reading;
    }
  }
}

const answered = (response: PaidResponse): Presented => ({ kind: "answered", response });

/** The header that pays, the same bytes every time. */
function paymentHeader(entry: PaymentEntry): Record<string, string> {
  if (entry.header) return { [entry.header.name]: entry.header.value };
  const value = encodeJsonHeader(entry.proof);
  parsePaymentProof(value);
  return { [HEADER.payment]: value };
}

async function readAnswer(effects: Effects, response: Response, entry: PaymentEntry): Promise<Reading> {
  const { status } = response;
  if (entry.permit2 && (status === 402 || status === 412) && errorInHeader(response) === ALLOWANCE_REQUIRED) {
    await response.body?.cancel();
    return { kind: "rejected", error: ALLOWANCE_REQUIRED, reason: undefined };
  }
  if (status === 402) {
    const { error, reason } = codesOf(await readBounded(effects, response));
    return { kind: "rejected", error, reason };
  }
  if (status === 409) {
    // A handler may answer 409 for its own reasons; the gate names the code.
    const { error } = codesOf(await readBounded(effects, response.clone()));
    return { kind: error === "ProofInFlight" ? "in_flight" : "served" };
  }
  // Whatever the status is, the payment is spent on it: it is refunded, and buys nothing more.
  if (response.headers.has(HEADER.paymentRefund)) return { kind: "served" };
  if (TRY_LATER.has(status)) return { kind: "later" };
  if (status >= 500 || status === 400) return { kind: "unserved" };
  // Stock servers settle only behind an answer below 400.
  if (entry.dialect !== "turnpike" && status >= 400) return { kind: "unserved" };
  return { kind: "served" };
}

const errorInHeader = (response: Response): unknown =>
  decodeJsonHeader(response.headers.get(HEADER.paymentRequiredV2) ?? "", 2 * MAX_CREDENTIAL_BYTES, MAX_ANSWER_DEPTH)
    ?.error;

function codesOf(text: string | undefined): {
  readonly error: string | undefined;
  readonly reason: string | undefined;
} {
  const body = text === undefined ? undefined : parseStrictJson(text);
  const code = (value: unknown) => (typeof value === "string" && /^[\w.-]{1,64}$/.test(value) ? value : undefined);
  return { error: code(body?.error), reason: code(body?.reason) };
}

async function deliver(context: AgentContext, job: PresentJob, response: Response): Promise<PaidResponse> {
  const { ledger, template, resumed } = job;
  const report = settlementReportOf(response);
  const transaction = report.transaction ?? job.entry.transaction;
  const reported = job.entry.permit2?.method === "upto" ? report.amount?.toString() : undefined;
  const signedReceipt = await receiptIn(context, response, {
    entry: job.entry,
    transaction: job.entry.proof?.transaction ?? transaction,
    payments: ledger.payments(),
  });
  const presented: PaymentEntry = {
    ...job.entry,
    ...(transaction === undefined ? {} : { transaction }),
    ...(reported === undefined ? {} : { reported }),
    ...(signedReceipt === undefined ? {} : { signedReceipt }),
  };
  const served = servedEntry(presented);
  await ledger.put(served);
  const { charged } = await confirmCharge(context, ledger, served);
  const entry = charged === undefined ? presented : { ...presented, charged };
  emitPayment(context.effects, "payment.served", { entry, resumed });
  const field = misreportedField(context, entry, report);
  if (field) context.effects.emit({ type: "payment.misreported", field, ...eventFacts({ entry, resumed }) });
  const final = isRedirect(response) ? await followWithoutCredential(context.effects, template, response) : response;
  const answer = withReceipt(final, receiptFor(entry, resumed));
  requireReceipt(context, { entry, answer, resumed });
  return answer;
}

/**
 * Emits why a receipt is no evidence.
 * @throws ReceiptRejected where the policy requires one that is
 */
function requireReceipt(
  { effects, policy }: AgentContext,
  {
    entry,
    answer,
    resumed,
  }: { readonly entry: PaymentEntry; readonly answer: PaidResponse; readonly resumed: boolean },
): void {
  const fault = entry.signedReceipt?.fault;
  if (fault !== undefined) {
    const { id: paymentId, payTo } = entry;
    effects.emit({ type: "receipt.faulty", fault, paymentId, amount: BigInt(entry.amount), payTo, resumed });
  }
  // A provider confirms no failure.
  const gap = policy.requireReceipt && answer.ok ? gapOf(entry.signedReceipt) : undefined;
  if (gap === undefined) return;
  throw new ReceiptRejected(
    `The provider's receipt ${gap}. The payment was made and served: \`response\` of this error has the answer. Do not pay again.`,
    { response: answer, ...(fault ? { reason: fault } : {}), details: factsOf(entry) },
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
  { ledger, entry, resumed }: Pick<PresentJob, "ledger" | "entry" | "resumed">,
  { error, reason }: Rejected,
): Promise<TurnpikeError> {
  const end = endOf(context, entry, reason);
  if (reason !== undefined && end !== undefined) {
    await ledger.put(servedEntry(entry));
    if (reason === ALREADY_USED) return alreadyUsed(entry);
    return new InvalidPaymentProof(`The provider says that this payment ${end}; nothing more was paid.`, {
      reason,
      details: factsOf(entry),
    });
  }
  emitPayment(context.effects, "payment.held", { entry, resumed });
  if (error === ALLOWANCE_REQUIRED) {
    const { payer, token, id: paymentId } = entry;
    const why = "the provider refuses the payment for it; it is kept, and the next call presents it again";
    return insufficientApproval({ payer, token, amount: BigInt(entry.amount), approval: undefined, why, paymentId });
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
    `The provider keeps rejecting a payment that was made${said}. ${adviceOn(entry, reason)} The next call presents the same payment again; agent.giveUp(paymentId) ends it.`,
    { ...(reason ? { reason } : {}), details: factsOf(entry) },
  );
}

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
