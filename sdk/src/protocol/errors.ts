/**
 * Defines every error of this project in one table: its code, HTTP status, cause, remedy and whether a retry can help.
 * The contracts' errors are listed under their Solidity names, so that a revert reaches a caller over HTTP by name.
 */

interface ErrorEntry {
  /** the HTTP status with which a gate or the Facilitator answers */
  readonly status: number;
  /** whether the same request can succeed later without any change */
  readonly retryable: boolean;
  /** thrown by contracts/, or by TypeScript alone */
  readonly origin: "contract" | "sdk" | "both";
  readonly cause: string;
  readonly remedy: string;
}

const entriesOf =
  (origin: ErrorEntry["origin"]) =>
  (status: number, cause: string, remedy: string, retryable = false): ErrorEntry => ({
    origin,
    status,
    cause,
    remedy,
    retryable,
  });

const contract = entriesOf("contract");

const sdk = entriesOf("sdk");

const both = entriesOf("both");

/** Every error by its code: HTTP status, cause, remedy, whether a retry can help, and its origin. */
export const ERRORS = {
  // The five that every user meets.
  InsufficientFunds: both(422, "Not enough token balance in the agent wallet.", "Add funds to the wallet, then retry."),
  SubscriptionNotActive: both(
    402,
    "The subscription is paused, cancelled, lapsed or unknown.",
    "Resume or renew it, or subscribe again.",
  ),
  AllowanceExhausted: both(
    402,
    "The spend cap of this cycle has been reached.",
    "Raise the cap, wait for the cycle to reset, or move to a larger plan.",
  ),
  InvalidPaymentProof: sdk(
    402,
    "The payment proof was rejected: forged, expired, or made for another request.",
    "The SDK retries automatically; if it persists, check `reason` and the Facilitator's status. Pay a fresh quote only when this payment has moved no money.",
  ),
  PlanDeprecated: both(
    422,
    "The plan is deprecated and takes no new subscription.",
    "Switch to the provider's current plan.",
  ),

  // Of the gate, the agent and the Facilitator.
  PaymentAlreadyUsed: sdk(
    402,
    "The payment has bought its request, and the provider holds no answer that it can replay.",
    "Do not pay again: ask the provider for its answer. A new purchase needs a new payment.",
  ),
  PaymentRequired: sdk(402, "The request carries no payment.", "Pay or subscribe to one of `accepts`."),
  InvalidRequest: sdk(
    400,
    "A field of the request is missing or malformed.",
    "Correct the field that `message` names.",
  ),
  AmbiguousCredentials: sdk(
    400,
    "More than one payment credential, or a duplicated or oversized one, was presented.",
    "Send one payment header, once, of at most 8 KiB.",
  ),
  AccessRefused: sdk(
    403,
    "The provider does not serve this payer here; nothing was charged by this answer.",
    "Ask the provider, or use another resource.",
  ),
  InvalidApiKey: sdk(
    401,
    "The API key is missing, unknown, expired or revoked.",
    "Send `Authorization: Bearer <key>`; get a new key by signing a challenge with the provider's wallet.",
  ),
  ScopeMissing: sdk(
    403,
    "The API key lacks the scope that this request needs.",
    "Create a key with the scope that `message` names.",
  ),
  UnknownObject: sdk(404, "No such object is known here.", "Check the id, the network and the API key."),
  EventsDeleted: sdk(
    410,
    "The cursor is before events that were deleted because of their age.",
    "Continue with the cursor that `message` names; list payments for what the deleted events said.",
  ),
  InvalidWebhook: sdk(
    400,
    "The webhook is not signed by a known secret, is too old, or is malformed.",
    "Do not act on it; check the endpoint's secret and this machine's clock.",
  ),
  PayloadConflict: sdk(
    409,
    "The same payment or idempotency key was already used with other contents.",
    "Repeat the original request, or ask for a fresh quote under a new key; a refused one stays taken.",
  ),
  ProofInFlight: sdk(
    409,
    "This proof is being used by a request that has not ended yet.",
    "Retry after the number of seconds in Retry-After.",
    true,
  ),
  UnknownSubscription: sdk(404, "No such subscription is known.", "Check the idHash and the network."),
  NotFound: sdk(404, "There is no such route.", "See /openapi.json for the routes."),
  MethodNotAllowed: sdk(405, "The route takes other methods.", "Use one that `Allow` names."),
  PayloadTooLarge: sdk(413, "The request body is larger than allowed.", "Send a smaller body."),
  UnsupportedMediaType: sdk(
    415,
    "The request's body is not declared as plain JSON.",
    "Send `Content-Type: application/json`, without a Content-Encoding.",
  ),
  RateLimited: sdk(429, "Too many requests.", "Slow down and honour Retry-After.", true),
  PaymentPending: sdk(
    503,
    "The outcome of the payment is not known yet.",
    "Present the same payment again; never sign another one.",
    true,
  ),
  PaymentExpired: sdk(
    422,
    "The authorization's window has passed or is too short; it can never move money.",
    "Ask for a fresh quote and sign again.",
  ),
  PaymentNotAllowed: sdk(
    422,
    "This Facilitator does not settle this token, payee or amount.",
    "`message` names what is allowed; GET /supported lists tokens, payees and smallest amounts.",
  ),
  RefundExceedsPayment: sdk(
    422,
    "The refunds of this payment, debit or charge would be more than was paid.",
    "Refund at most `details.refundable`.",
  ),
  PermitTooLow: sdk(
    422,
    "The token approval for Turnpike does not cover the next charges.",
    "Sign a permit over a larger amount.",
  ),
  Unavailable: sdk(
    503,
    "The Facilitator or the chain cannot be reached.",
    "Retry later, with the same payment where one was sent: it never pays twice.",
    true,
  ),
  PolicyRefused: sdk(402, "The agent's own policy does not allow this payment.", "Widen the policy, or do without."),
  ReceiptRejected: sdk(
    502,
    "The provider served a paid request without the signed receipt that the agent's policy requires.",
    "Do not pay again: `response` has the answer. Ask the provider for its receipt.",
  ),
  AbortError: sdk(
    408,
    "The caller aborted the call, or closed the agent.",
    "Repeat the call: what `message` says was signed is finished, and nothing is signed twice.",
    true,
  ),
  LedgerLocked: sdk(
    500,
    "Another process holds the file that `message` names.",
    "Stop that process, or configure another file for this one.",
  ),
  ConfigError: sdk(500, "Turnpike is configured wrongly.", "Correct the setting that `message` names."),
  Internal: sdk(500, "A fault in this service.", "Report it with the request id.", true),

  // Of the contracts.
  InvalidTerms: contract(422, "A term of the plan is out of range.", "Correct the field it names."),
  UnknownPlan: contract(404, "No such plan exists on this chain.", "Check planId and network."),
  PlanExists: contract(409, "The same plan was created before.", "Use it, or create with another salt."),
  PlanStopped: contract(
    422,
    "The plan was stopped: it charges nothing any more, and its subscriptions end with the period that is paid.",
    "Change to another plan while the period is paid, or subscribe to one.",
  ),
  TermsDiffer: contract(
    409,
    "The terms that were signed are not what the next plan has now; the error names the first that differs.",
    "Read the plan, check that the change is still wanted, and sign again.",
  ),
  PayeeApart: contract(
    422,
    "The plan's payee is not its provider: it cannot be handed over.",
    "Propose the provider as payee, by both or seven days before.",
  ),
  InvalidSuccessor: contract(
    422,
    "The successor is not a live plan of the same provider and token.",
    "Name another plan, or none.",
  ),
  PlanMismatch: contract(
    422,
    "The new plan has another provider or token, or is the same plan.",
    "Choose another plan of the same provider and token, or subscribe again.",
  ),
  CreditExceedsPrice: contract(
    422,
    "The unused time is worth more than the new plan's price.",
    "Schedule the change for the period's end (setNext), or wait: credit falls with time.",
  ),
  ChargeAboveMax: contract(
    422,
    "The charge would be above the maximum that was signed.",
    "Ask for the charge again and sign that.",
  ),
  IdHashUsed: contract(409, "This subscription id was used before.", "Subscribe with a fresh secret."),
  Ending: contract(
    422,
    "The subscription ends with its period; its plan cannot change.",
    "Subscribe again when it has ended.",
  ),
  NothingToResume: contract(
    422,
    "The subscription is neither paused nor expired.",
    "Read its status; an active one needs nothing, a past due one is renewed.",
  ),
  RenewalNotDue: contract(422, "The paid period has not ended.", "Retry at `dueAt`."),
  RenewalDue: contract(
    422,
    "The paid period has ended; the renewal comes first.",
    "Call renew(idHash), then repeat.",
    true,
  ),
  NotSubscriber: contract(422, "The caller is not the subscriber.", "Sign with the subscriber's key."),
  UntilReached: contract(
    422,
    "The end that the subscriber has set is reached, or is not in the future.",
    "Set a later end, or none.",
  ),
  PaidThroughTooLarge: contract(
    422,
    "The period would end after the year 4147.",
    "Choose a plan with shorter periods.",
  ),
  NotProvider: contract(422, "The caller is not the plan's provider.", "Use the provider's key."),
  NotProposed: contract(422, "No other payee is proposed for this plan.", "Propose one first."),
  TooEarly: contract(422, "The proposed payee cannot be applied yet.", "Retry at `effectiveAt`."),
  InvalidVoucher: contract(
    422,
    "The voucher's signer has no right to sign vouchers on this plan, or its first amount is above the price, or it offers what the plan has without it.",
    "Ask the provider for another voucher, or subscribe without one.",
  ),
  FirstIntervalTooLong: contract(
    422,
    "The voucher's first period is longer than 366 days.",
    "Ask the provider for a voucher with a shorter one.",
  ),
  NotOperator: contract(422, "The caller may not debit on this plan.", "Have the provider call setOperator."),
  OnlySelf: contract(422, "Only the contract itself may call this.", "Use the public function."),
  StaleVersion: contract(409, "The subscription changed since this was signed.", "Read its version and sign again."),
  VersionExhausted: contract(
    422,
    "The subscription was changed 65,535 times.",
    "Rekey it; the new record starts at 0.",
  ),
  SignatureExpired: contract(422, "The signature's deadline has passed.", "Sign again."),
  InvalidSignature: contract(422, "The signature is not of the account it names.", "Sign with its key."),
  CapTooLarge: contract(422, "The cap is above 2^88 - 1.", "Name a smaller cap."),
  ZeroAmount: contract(422, "The amount is zero.", "Name an amount above zero."),
  StaleDebit: contract(
    409,
    "The debit's index is not the number of debits so far.",
    "Read the allowance; if the debit at that index is your own, it has succeeded.",
  ),
  InsufficientApproval: contract(422, "The token approval is too small.", "Sign a permit, or approve more."),
  TransferFailed: contract(
    422,
    "The token refused or faked the transfer.",
    "Check that the token is not paused and that no party is blocked.",
    true,
  ),
  InsufficientGas: contract(
    503,
    "The transaction had too little gas to give each item its share.",
    "Send with more gas, or fewer items.",
    true,
  ),
} as const satisfies Record<string, ErrorEntry>;

/** A stable code of {@link ERRORS}. */
export type ErrorCode = keyof typeof ERRORS;

/** Returns whether a value is one of the codes. */
export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === "string" && Object.hasOwn(ERRORS, value);
}

/** What an error carries besides its code and message. */
export interface TurnpikeErrorOptions {
  readonly cause?: unknown;
  /** why within the code, e.g. "already_used" */
  readonly reason?: string;
  readonly retryAfterSec?: number;
  /** safe for anyone to read: no key, signature or subscription id */
  readonly details?: Readonly<Record<string, string | number | boolean>>;
  /** default: that of the code */
  readonly remedy?: string | undefined;
}

/**
 * Base of every error that is thrown on purpose. `code` is stable; compare it rather than the class across packages.
 */
export class TurnpikeError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly retryable: boolean;
  readonly remedy: string;
  readonly reason: string | undefined;
  readonly retryAfterSec: number | undefined;
  readonly details: Readonly<Record<string, string | number | boolean>>;

  constructor(code: ErrorCode, message?: string, options: TurnpikeErrorOptions = {}) {
    super(message ?? ERRORS[code].cause, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = code;
    this.code = code;
    this.status = ERRORS[code].status;
    this.retryable = ERRORS[code].retryable;
    this.remedy = options.remedy ?? ERRORS[code].remedy;
    this.reason = options.reason;
    this.retryAfterSec = options.retryAfterSec;
    this.details = options.details ?? {};
  }
}

/** For errors that come from another realm or copy of this package: by shape, not by class. */
export function isTurnpikeError(error: unknown): error is TurnpikeError {
  return error instanceof Error && isErrorCode((error as { code?: unknown }).code);
}

const classOf = <C extends ErrorCode>(code: C) =>
  class extends TurnpikeError {
    declare readonly code: C;
    constructor(message?: string, options?: TurnpikeErrorOptions) {
      super(code, message, options);
    }
  };

// One class per remedy that a caller would act on. Causes and remedies are in the table above.
export class InsufficientFunds extends classOf("InsufficientFunds") {}

export class SubscriptionNotActive extends classOf("SubscriptionNotActive") {}

export class AllowanceExhausted extends classOf("AllowanceExhausted") {}

export class InvalidPaymentProof extends classOf("InvalidPaymentProof") {}

export class PlanDeprecated extends classOf("PlanDeprecated") {}

export class PaymentAlreadyUsed extends classOf("PaymentAlreadyUsed") {}

export class InvalidRequest extends classOf("InvalidRequest") {}

export class PaymentPending extends classOf("PaymentPending") {}

/** By `reason`: what no wider policy would change. */
const REMEDIES_OF_REFUSALS: Readonly<Record<string, string>> = {
  quote: "Check the URL, and ask its provider for terms of x402.",
  redirect: "Request the address that it redirects to, if you trust that one.",
  resource: "Request the URL that the provider sells, or ask the provider to correct its publicUrl.",
  facilitator: "Add the Facilitator to `facilitators` if you trust it, or do without.",
  subscription_only: "Subscribe, or do without.",
  wallet: "Approve the request in the wallet, or use another wallet.",
  max_amount: "Raise this call's maxAmount, or do without.",
};

/** Refused by the agent itself. */
export class PolicyRefused extends classOf("PolicyRefused") {
  constructor(message?: string, options: TurnpikeErrorOptions = {}) {
    super(message, { remedy: REMEDIES_OF_REFUSALS[options.reason ?? ""], ...options });
  }
}

/** Thrown after a payment that was served. */
export class ReceiptRejected<R = Response> extends classOf("ReceiptRejected") {
  /** the answer that was paid for; over MCP the tool's result */
  readonly response: R | undefined;

  constructor(message?: string, { response, ...options }: TurnpikeErrorOptions & { readonly response?: R } = {}) {
    super(message, options);
    this.response = response;
  }
}

export class AbortError extends classOf("AbortError") {}

export class Unavailable extends classOf("Unavailable") {}

export class InvalidWebhook extends classOf("InvalidWebhook") {}

export class ConfigError extends classOf("ConfigError") {}

/** The codes that have a class of their own to catch; all others are a {@link TurnpikeError} with their code. */
export const ERROR_CLASSES = {
  InsufficientFunds,
  SubscriptionNotActive,
  AllowanceExhausted,
  InvalidPaymentProof,
  PlanDeprecated,
  PaymentAlreadyUsed,
  InvalidRequest,
  PaymentPending,
  PolicyRefused,
  ReceiptRejected,
  AbortError,
  Unavailable,
  InvalidWebhook,
  ConfigError,
} as const satisfies Partial<Record<ErrorCode, unknown>>;
