/**
 * Defines what a granted request carries (who paid, how, and access to the allowance), and what becomes of its payment once
 * the handler has answered: it settles then, or is refunded where the handler failed after it had settled.
 */
import type { Plan } from "../../chain/plans";
import type { RefundOutcome } from "../../facilitator/client";
import {
  type Address,
  caip2Of,
  type ErrorCode,
  encodeJsonHeader,
  HEADER,
  type Hex,
  isTurnpikeError,
  type Money,
  type PricedToken,
  type TurnpikeError,
} from "../../protocol";
import { atMost } from "../../protocol/exchange";
import type { Deduction } from "../metering/charges";
import {
  CountedMeter,
  type DeductUsage,
  type UsageMeter,
  type UsageMeterOptions,
  usageTermsOf,
} from "../metering/usage-meter";
import type { KeptAnswer } from "../replay/fit";
import type { Settings } from "./settings";

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

/** Why a request is asked to pay. */
export interface Refusal {
  readonly code: ErrorCode;
  readonly reason?: string;
  readonly message: string;
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

/** The largest answer that is withheld until its payment has settled, bytes; a longer one settles first. */
export const MAX_WITHHELD_BYTES = 1_024 * 1_024;

/** How long a body may take after its first part, milliseconds; one that takes longer is a stream, and settles first. */
export const MAX_WITHHELD_MS = 5_000;

/** What became of a settlement that followed its handler. */
export type DeferredOutcome =
  /** report: receipts, which the answer carries */
  | { readonly kind: "settled"; readonly report: PaymentReport }
  /** nothing was charged by this request: the answer must not leave */
  | { readonly kind: "refused"; readonly refusal: Refusal }
  /** the handler charged what cannot be charged: nothing was, and the answer must not leave */
  | { readonly kind: "failed"; readonly cause: TurnpikeError }
  /** the outcome is unknown, or could not be recorded: the answer must not leave */
  | { readonly kind: "unavailable"; readonly cause: TurnpikeError };

/** One payment that is claimed and reserved, while its handler runs. The first call of any method decides. */
export interface DeferredSettlement {
  /** Returns whether the route charges for an answer of this status, which is no failure. */
  chargesFor(status: number): boolean;
  /**
   * Stores the answer, settles, then uses the payment up.
   * @param answer whole; undefined for a stream, which settles before its first byte leaves
   */
  settle(answer: KeptAnswer | undefined): Promise<DeferredOutcome>;
  /** Releases the payment because its handler failed: nothing is charged, and the run counts. */
  cancel(): Promise<void>;
  /** Releases the payment because no handler ran. */
  withdraw(): Promise<void>;
  /** Stores the answer for the same payment's next request, because its client has left. Charges nothing now. */
  shelve(answer: KeptAnswer | undefined): Promise<void>;
}

/** `refused`: for good. Whatever is unknown or may change is `pending`. */
export type RefundState = "settled" | "pending" | "refused";

export interface RefundRequests {
  /** Asks for the refund of a payment whose purchase is closed. @returns what is known after a bounded time */
  ask(paymentId: Hex): Promise<RefundState>;
  /** Ends the repetitions: the payer's next request begins them again. */
  close(): void;
}

/** What a request needs whose payment is refunded if its handler fails. */
export interface RefundOnFailure {
  readonly paymentId: Hex;
  /** of the failed answer */
  readonly headers: Readonly<Record<string, string>>;
  /** Called once the purchase is closed: it is never served again. */
  begin(): void;
}

/** A refund settles with a block; the payer finds it later by the payment's id. */
const ANSWER_WAIT_MS = 1_000;

const FIRST_RETRY_MS = 1_000;

const LAST_RETRY_MS = 300_000;

/** More are not repeated by themselves, but when their payers ask. */
const MAX_REPEATED = 10_000;

/** The Facilitator will never refund it automatically. */
const FINAL: ReadonlySet<ErrorCode> = new Set(["UnknownObject", "RefundExceedsPayment", "PayloadConflict"]);

/**
 * Asks the Facilitator for refunds until their outcome is known. The payment is the idempotency key, so that asking again
 * never pays twice. Signs nothing and holds no money.
 * @param refundPayment throws Unavailable when the outcome is unknown
 */
export function createRefundRequests(refundPayment: (paymentId: Hex) => Promise<RefundOutcome>): RefundRequests {
  const running = new Map<Hex, Promise<RefundState>>();
  const timers = new Map<Hex, NodeJS.Timeout>();
  const warned = new Set<string>();
  let isClosed = false;

  function warn(code: string, message: string): void {
    if (warned.has(code)) return;
    warned.add(code);
    process.emitWarning(`A payment of a failed request is not refunded (${code}): ${message}`);
  }

  async function once(paymentId: Hex): Promise<RefundState> {
    try {
      const outcome = await refundPayment(paymentId);
      if (outcome.kind !== "refused") return outcome.kind;
      const { code, message } = outcome.error;
      warn(code, message);
      return FINAL.has(code) ? "refused" : "pending";
    } catch (error) {
      if (!isTurnpikeError(error)) throw error;
      warn(error.code, error.message);
      return "pending";
    }
  }

  function attempt(paymentId: Hex, delayMs: number): Promise<RefundState> {
    const asking = once(paymentId).finally(() => running.delete(paymentId));
    running.set(paymentId, asking);
    clearTimeout(timers.get(paymentId));
    timers.delete(paymentId);
    asking.then(
      (state) => {
        if (state === "pending") repeat(paymentId, delayMs);
      },
      (error: unknown) => warn("Internal", String(error)),
    );
    return asking;
  }

  function repeat(paymentId: Hex, delayMs: number): void {
    if (isClosed || timers.size >= MAX_REPEATED) return;
    const next = (): unknown => attempt(paymentId, Math.min(2 * delayMs, LAST_RETRY_MS)).catch(() => undefined);
    timers.set(paymentId, setTimeout(next, delayMs).unref());
  }

  return {
    ask: (paymentId) =>
      atMost(ANSWER_WAIT_MS, running.get(paymentId) ?? attempt(paymentId, FIRST_RETRY_MS), () => "pending" as const),
    close() {
      isClosed = true;
      for (const timer of timers.values()) clearTimeout(timer);
      timers.clear();
    },
  };
}

/** What `payment` needs so that a failure of its handler is refunded. */
export function refundOnFailureOf(
  { refunds, settings }: { readonly refunds: RefundRequests; readonly settings: Settings },
  { paymentId, amount, payer }: OneTimePayment,
): RefundOnFailure {
  const network = caip2Of(settings.network.chainId);
  const refund = { status: "pending", network, paymentId, payer, amount: `${amount}` };
  return {
    paymentId,
    headers: { [HEADER.paymentRefund]: encodeJsonHeader(refund) },
    begin: () => void refunds.ask(paymentId).catch(() => undefined),
  };
}
