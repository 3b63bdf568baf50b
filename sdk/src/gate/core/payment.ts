/** Defines what a granted request carries: who paid, how, and access to the allowance. */
import type { Plan } from "../../chain/plans";
import type { Address, Hex, Money, PricedToken } from "../../protocol";
import type { Deduction } from "../metering/charges";
import { CountedMeter } from "../metering/counted-meter";
import { type DeductUsage, type UsageMeter, type UsageMeterOptions, usageTermsOf } from "../metering/usage-meter";

interface Charges {
  /**
   * Sets what a payment of the scheme `upto` costs, at most its `max`: the last call before the answer counts, and 0
   * settles nothing. Other payments cost what they were quoted, and ignore it.
   * @param actual base units as a bigint or a safe integer, or text as prices are written, such as "$0.012"
   * @throws Internal above the maximum, or after the answer has begun; ConfigError for no amount. The request is then
   * answered with 500, and costs nothing
   */
  charge(actual: Money): void;
}

interface Deducts extends Charges {
  /**
   * Charges overage to the allowance; one-time and free requests are charged 0.
   * @param amount base units: a bigint, a safe integer or a decimal string
   * @param usage what it is for, as its usage receipt says; default one "call" at this amount
   * @throws AllowanceExhausted when nothing remains; InsufficientFunds when an earlier debit failed; Unavailable
   */
  deduct(amount: bigint | number | string, usage?: DeductUsage): Promise<Deduction>;
  /**
   * Meters an answer in units, such as tokens or seconds, whose number is not known ahead. A subscription is charged
   * what was delivered, up to its cap. A payment of the scheme `upto` is charged the sum of its meters, up to its `max`,
   * and nothing where the sum is below what the Facilitator settles. Others are charged nothing.
   * @throws ConfigError that names the option
   */
  meter(options: UsageMeterOptions): UsageMeter;
}

/** The flow of a standard payment, in the words of x402: it settles after the handler, or before it. */
export type PaymentFlow = "authorization" | "upfront";

/** Paid by one transfer. */
export interface OneTimePayment extends Deducts {
  readonly kind: "one-time";
  readonly payer: Address;
  readonly payTo: Address;
  /** base units; of the scheme `upto`: what it is charged, which is the maximum until `charge` names less */
  readonly amount: bigint;
  /** of the scheme `upto` alone: the most that it may be charged, base units */
  readonly max?: bigint;
  readonly token: Address;
  readonly network: string;
  readonly paymentId: Hex;
  /** absent until it has settled, after the handler where it settles then; and where nothing was charged */
  readonly transaction?: Hex;
  /** a proof of this project's Facilitator, a standard x402 payload, or a credential of MPP */
  readonly dialect: "turnpike" | "x402" | "mpp";
}

/** The headers of a paid answer that report its payment, by the kind of the answer. */
export interface PaymentReport {
  /** of 2xx, and of the other kinds that are not named */
  readonly headers: Readonly<Record<string, string>>;
  /** of redirects and other answers below 400 */
  readonly headersOfRedirect?: Readonly<Record<string, string>> | undefined;
  /** of a status from 400 on, and of a handler that has failed */
  readonly headersOfFailure?: Readonly<Record<string, string>> | undefined;
}

/** Returns the headers that report a payment with this answer. */
export function reportedWith(
  { headers, headersOfRedirect, headersOfFailure }: PaymentReport,
  status: number,
  hasFailed = false,
): PaymentReport["headers"] {
  if (hasFailed || status >= 400) return headersOfFailure ?? headers;
  return status >= 200 && status < 300 ? headers : (headersOfRedirect ?? headers);
}

/** Paid by a subscription. */
export interface SubscriptionPayment extends Deducts {
  readonly kind: "subscription";
  readonly subscriber: Address;
  /** the public name of the subscription; its secret id is not kept */
  readonly idHash: Hex;
  readonly planId: Hex;
  readonly plan: Plan;
  readonly status: "ACTIVE";
  /** unix seconds, exclusive */
  readonly paidThroughSec: number;
  /** base units; what remains may shrink while this request runs */
  readonly allowance: { readonly cap: bigint; readonly remaining: bigint };
}

/** Served for nothing. */
export interface FreePayment extends Deducts {
  readonly kind: "free";
}

/** Who paid for the current request, and how. */
export type Payment = OneTimePayment | SubscriptionPayment | FreePayment;

/** The part of a route that decides which subscriptions it charges. */
export interface MeteredRoute {
  readonly planIds: readonly Hex[];
  /** by option, or once `deductAllowance` was called on it */
  metered: boolean;
}

const nothing: Deduction = { charged: 0n, remaining: 0n, clipped: false };

export const deductsNothing = async (): Promise<Deduction> => nothing;

export const chargesNothing = (): void => undefined;

/** Returns the `meter` of payments that cost what they were quoted. @param token what its prices are written in */
export const countsOnly =
  (token: PricedToken): OneTimePayment["meter"] =>
  (options) =>
    new CountedMeter(usageTermsOf(options, token));

export const freePayment = (token: PricedToken): FreePayment => ({
  kind: "free",
  deduct: deductsNothing,
  charge: chargesNothing,
  meter: countsOnly(token),
});
