/** Judges what a standard x402 payload presents: the gate checks what was signed, and the Facilitator settles it. */
import { hasCode } from "../../chain/views";
import type { X402RequestWire } from "../../facilitator/x402";
import { type Address, type Hex, keccakText, SIGNATURE_65, TurnpikeError, Unavailable } from "../../protocol";
import { CLOCK_SLACK_SEC, DAY_SEC } from "../../protocol/periods";
import { isPending } from "../../protocol/refusals";
import { traceHeadersOf } from "../../protocol/tracing";
import type { GateContext } from "../core/context";
import { MAX_TIMEOUT_SEC, usableKeyOf } from "../core/offers";
import { chargesNothing, countsOnly, deductsNothing, type OneTimePayment, type PaymentFlow } from "../core/payment";
import {
  type Candidate,
  invalid,
  type PaymentAnswers,
  type PaymentCase,
  type PaymentVerdict,
  verdictOfLate,
} from "../core/payment-case";
import { mayReserve, noReservations, type SettleOrder } from "../core/readiness";
import type { TokenTerms } from "../core/terms";
import type { Method, PresentedFault, SchemeName, SignedTransfer } from "../methods";
import { recoverSigner } from "../methods/method";
import type { ClaimStore } from "../purchases/record";
import type { ReplaySecret } from "../replay/keeper";
import { deferSettlement, settleFirst } from "./deferral";
import type { Purchase, Reservation, Scheme, SettlementAnswer } from "./scheme";

/** One payment as a payload presents it: its facts and its signature are not checked yet. */
export interface PresentedPayment extends SignedTransfer {
  readonly dialect: PaymentAnswers;
  /** as the payment's `dialect` has it */
  readonly dialectName: OneTimePayment["dialect"];
  /** the client's own idempotency key, which names this payment and no other */
  readonly identifier?: string;
  /** its quote has expired */
  readonly isLate?: boolean;
  /** quoted to settle after the handler: its payer did not agree to be charged for a failure */
  readonly isQuotedAfter?: boolean;
  readonly scheme: SchemeName;
  readonly method: Method;
  readonly token: TokenTerms;
  readonly settlement: X402RequestWire;
}

/** Why a payload is refused. */
export type Fault =
  | "payment_identifier"
  | PresentedFault
  | "network"
  | "settler"
  | "resource"
  | "memo"
  | "memo_expired"
  | "flow"
  | "window"
  | "signature";

const FAULTS: Readonly<Record<Fault, string>> = {
  payment_identifier: "A payment-identifier has 16 to 128 letters, digits, hyphens or underscores.",
  network: "The x402 payload is of another network.",
  transfer_method: "The x402 payload moves its money in another way than the quoted option names.",
  spender: "The x402 payload permits another spender than the proxy of its scheme.",
  settler: "The x402 payload names a facilitator that is no key of this provider's Facilitator: take a fresh quote.",
  resource:
    "The x402 payload names another resource.url than the one requested; leave it out, or repeat the quoted one.",
  terms: "The x402 payload pays none of the current options: amount and payee must be exactly as quoted.",
  memo: "The x402 payload must repeat a quoted option with its extra.memo, made for this method and resource.",
  memo_expired: "The quote has expired. Pay a fresh one unless this payment has moved money.",
  flow: "The quoted option settles after the request is served, and this resource now settles before: take a fresh quote.",
  window: `The authorization must be valid now and end within ${MAX_TIMEOUT_SEC} s.`,
  signature: "The authorization's signature is not its payer's.",
};

/** An authorization that ends sooner cannot settle in time. */
const MARGIN_SEC = 6;

export const verdictOfFault = (fault: Fault): PaymentVerdict => invalid(fault, FAULTS[fault]);

/** Checks a payment that was read. @returns what to claim, or why nothing is. @throws Unavailable */
export async function checkPresented(found: PresentedPayment, at: PaymentCase): Promise<Candidate | PaymentVerdict> {
  const { authorization, paymentId, scheme, method, token, settlement, identifier } = found;
  const { settings, time } = at.context;
  const nowSec = time.nowSec();
  const { from, to, value, nonce, validBefore } = authorization;
  const payment: OneTimePayment = {
    kind: "one-time",
    dialect: found.dialectName,
    payer: from,
    payTo: to,
    amount: value,
    ...(scheme === "upto" && { max: value }),
    token: token.address,
    network: settings.network.name,
    paymentId,
    deduct: deductsNothing,
    charge: chargesNothing,
    meter: countsOnly(settings.token ?? {}),
  };
  const key = usableKeyOf(at.request);
  // Of a request with neither the answer is not replayed.
  const secret: ReplaySecret | undefined =
    identifier !== undefined ? ["identifier", identifier] : key !== undefined ? ["key", key] : undefined;
  const late = found.isLate ? "memo_expired" : faultOfWindow(authorization, time.latestSec());
  // Too late to pay with, but it may have paid already: then a fresh quote would be paid in addition.
  const used = late && (await verdictOfLate(at, { payment, secret }));
  if (used) return used;
  const outage = time.outage();
  if (late && outage) throw outage;
  const keepUntilSec = Number(validBefore) + DAY_SEC;
  // The claim store may have forgotten what it bought, while its Facilitator grants it to its purchase for ever.
  if (late && nowSec >= keepUntilSec) return verdictOfFault(late);
  const fault = await faultOfSigned(found, at.context);
  if (fault) return verdictOfFault(fault);
  const purchase = {
    dialect: found.dialect,
    payment,
    nonce,
    method,
    settlement,
    signature: found.signature,
    secret,
    keepUntilSec,
    nowSec,
  };
  // The Facilitator may settle it now only if it accepted it in time: an expired quote must not move money.
  if (late && !(await exact.isUnderWay(at, purchase))) return verdictOfFault(late);
  return {
    ...purchase,
    async confirm(claim) {
      if (outage) throw outage;
      const { claims: store } = at.context;
      if (identifier) await bindIdentifier({ store, id: identifier, payer: from, paymentId, keepUntilSec, nowSec });
      const run = { at, scheme: found.scheme === "upto" ? upto : exact, purchase, claim };
      // An `upto` payment settles after its handler alone: before, nobody knows its amount.
      const flow = scheme === "upto" ? "authorization" : await flowOfPayment(at.context, at.route.settle);
      if (flow === "authorization") return deferSettlement({ ...run, isLate: late !== undefined });
      if (!found.isQuotedAfter || late) return settleFirst(run);
      await claim.settle("withdraw");
      return verdictOfFault("flow");
    },
  };
}

/** Returns the flow of a payment. @throws Unavailable when it cannot be found out, or `settle: "after"` not be done */
async function flowOfPayment(context: GateContext, settle: SettleOrder): Promise<PaymentFlow> {
  if (settle === "before" || (settle === undefined && !mayReserve(context.settings))) return "upfront";
  if (mayReserve(context.settings) && (await context.facilitator.reserves())) return "authorization";
  if (settle === undefined) return "upfront";
  throw new Unavailable(noReservations(context), { retryAfterSec: 60 });
}

function faultOfWindow(
  { validAfter, validBefore }: SignedTransfer["authorization"],
  nowSec: number,
): Fault | undefined {
  const now = BigInt(nowSec);
  const isOpen = validAfter < now + BigInt(CLOCK_SLACK_SEC) && validBefore > now + BigInt(MARGIN_SEC);
  return isOpen && validBefore <= now + BigInt(MAX_TIMEOUT_SEC + CLOCK_SLACK_SEC) ? undefined : "window";
}

/** @throws Unavailable */
async function faultOfSigned(found: PresentedPayment, context: GateContext): Promise<Fault | undefined> {
  if (found.settler && !(await context.support.isSender(found.settler))) return "settler";
  return faultOfSignature(found, context);
}

/**
 * Checks the signature of an ordinary account. Only the chain can judge a contract wallet's, and the Facilitator asks
 * it. Such a wallet may sign with its owner's key, so another key is a fault only where the payer is known to have no
 * code.
 */
async function faultOfSignature(
  { authorization: { from }, digest, signature }: PresentedPayment,
  { rpc }: GateContext,
): Promise<Fault | undefined> {
  if (!SIGNATURE_65.test(signature) || recoverSigner(digest, signature) === from) return undefined;
  return rpc && !(await hasCode(rpc, from)) ? "signature" : undefined;
}

/**
 * `payment-identifier` of x402 version 2: one id of one payer names one payment, for as long as that is remembered. A
 * second payment under the same id is refused before any money moves. The id also opens the answer that is kept for it.
 */
export interface Binding {
  readonly store: ClaimStore;
  readonly id: string;
  readonly payer: Address;
  readonly paymentId: OneTimePayment["paymentId"];
  readonly keepUntilSec: number;
  readonly nowSec: number;
}

/** @throws PayloadConflict when another payment has the id */
export async function bindIdentifier({ store, id, payer, paymentId, ...until }: Binding): Promise<void> {
  const key = keccakText(JSON.stringify(["payment-identifier", payer, id]));
  if ((await store.first(key, paymentId, until)) === paymentId) return;
  throw new TurnpikeError("PayloadConflict", "This payment-identifier was used for another payment.");
}

/** A transfer that a Facilitator makes by what its payer has signed. */
export interface TransferPurchase extends Purchase {
  readonly settlement: X402RequestWire;
}

/** Costs its amount. */
export const exact: Scheme<TransferPurchase> = { reserve, settle, cancel, isUnderWay };

/** Costs what its handler charges, at most its amount. */
export const upto: Scheme<TransferPurchase> = { ...exact, charged };

function charged(purchase: TransferPurchase, amount: bigint): TransferPurchase {
  const { payment, settlement } = purchase;
  const paymentRequirements = { ...settlement.paymentRequirements, amount: amount.toString() };
  return {
    ...purchase,
    payment: { ...payment, amount },
    settlement: { ...settlement, paymentRequirements } as X402RequestWire,
  };
}

async function isUnderWay({ context }: PaymentCase, { payment }: Pick<Purchase, "payment">): Promise<boolean> {
  const found = await context.facilitator.payment(payment.paymentId);
  if (found.kind === "refused") throw new Unavailable(found.error.message, { cause: found.error, retryAfterSec: 2 });
  return found.value.status !== "unknown" && found.value.status !== "failed";
}

/** @throws Unavailable when the Facilitator does not answer, or reserves nothing */
async function reserve(at: PaymentCase, { settlement }: TransferPurchase, grantId: Hex): Promise<Reservation> {
  const { context, request, resource } = at;
  const asked = { ...settlement, grant: { id: grantId, resource } };
  const verdict = await context.facilitator.x402Verify(asked, { trace: traceHeadersOf(request) });
  if (!verdict.isValid) return { kind: "refused", reason: verdict.invalidReason };
  if (verdict.reserved) return { kind: "reserved", grantId };
  throw new Unavailable("The Facilitator did not reserve the payment: nothing is served by it.", { retryAfterSec: 60 });
}

function cancel({ context }: PaymentCase, { payment }: TransferPurchase, grantId: Hex): Promise<unknown> {
  return context.facilitator.releasePayment(payment.paymentId, grantId);
}

async function settle(at: PaymentCase, { settlement }: TransferPurchase, grantId: Hex): Promise<SettlementAnswer> {
  const { context, request, resource } = at;
  const asked = { ...settlement, grant: { id: grantId, resource } };
  const outcome = await context.facilitator.x402Settle(asked, { trace: traceHeadersOf(request) });
  if (outcome.success) return { kind: "settled", transaction: outcome.transaction, grant: outcome.grant };
  if (!isPending(outcome.errorReason)) return { kind: "faulty", reason: outcome.errorReason };
  throw new Unavailable("The payment is not settled yet: send the same payload again.", { retryAfterSec: 2 });
}
