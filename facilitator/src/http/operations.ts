/** What the API's description adds to each endpoint: its operation id, its description, and the errors of its own. */

import type { ErrorCode } from "turnpike/protocol";

interface Operation {
  readonly id: string;
  readonly description: string;
  /** codes besides those that the endpoint's inputs and admission imply */
  readonly errors?: readonly ErrorCode[];
}

const op = (id: string, description: string, ...errors: ErrorCode[]): Operation => ({ id, description, errors });

const PAYMENT: ErrorCode[] = ["PayloadConflict", "InsufficientFunds", "PaymentExpired", "PaymentNotAllowed"];
const CHANGE: ErrorCode[] = ["UnknownSubscription", "InvalidSignature", "SignatureExpired"];
const SIGNED =
  "A call without the subscriber's signature is refused. A 202 has no outcome yet: send the same body again.";
const RANGE = "Covers a range of whole UTC days, or `from` and `to`. Amounts are decimal strings of base units.";
const PAGED = "Returns one page; pass `next` as `cursor` for the following page.";

/** By method and path. A path that ends in `.csv` has the description of the path without it. */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
  "post /authorize": op(
    "authorizePayment",
    "Settles an EIP-3009 authorization and returns a proof for the gate. Send the same body again after a 202 or a lost answer: the token accepts each authorization once, so a repetition never pays twice.",
    ...PAYMENT,
  ),
  "post /refunds": op(
    "createRefund",
    "Settles a transfer that the payee or the provider signed back to the payer of a payment, a debit or a charge. The nonce names what is refunded, and the refunds of one id never exceed what was paid. The signature alone authorizes it. Send the same body again after a 202 or a lost answer.",
    ...PAYMENT,
    "UnknownObject",
    "PaymentPending",
    "RefundExceedsPayment",
    "InvalidSignature",
  ),
  "get /refunds/{id}": op(
    "listRefunds",
    "Lists the settled refunds of a payment, a debit or a charge, which are public on the chain. `id` is the one that refunds are counted under: the paymentId, or a hash that anyone can compute. An id without refunds has an empty list.",
  ),
  "post /payments/{id}/refund": op(
    "refundPayment",
    "Refunds a whole payment from the account that its payee has named at `POST /refund-accounts`, within the daily cap. The payee is the provider of the API key. A payment is refunded automatically once, however often it is requested. `RateLimited` with the reason `refund_cap` means that the refunds of 24 hours would pass the cap. Send the request again after a 202 or a lost answer.",
    ...PAYMENT,
    "UnknownObject",
    "PaymentPending",
    "RefundExceedsPayment",
  ),
  "post /refund-accounts": op(
    "nameRefundAccount",
    "Names the account that the automatic refunds of a provider's payments in one token are paid from, and the most that they take within 24 hours. The provider's signature alone authorizes it, and this Facilitator must have the account's key for this provider. A statement replaces those of lower versions.",
    "InvalidSignature",
    "PaymentNotAllowed",
    "PayloadConflict",
  ),
  "get /refund-accounts": op(
    "listRefundAccounts",
    "Returns the account whose key this Facilitator has for the provider, the statements that count, and what is used of each cap.",
  ),
  "delete /refund-accounts/{token}": op(
    "revokeRefundAccount",
    "Ends automatic refunds of the provider's payments in a token at once. Refunds that were accepted are still settled. Only a statement with a higher version resumes them.",
    "UnknownObject",
  ),
  "get /payments/{id}": op(
    "getPayment",
    "Returns whether a payment is pending, settled, failed, reversed or unknown. Anyone can compute the id, so the answer has no proof, memo or resource. It lists the settled refunds, which are public on the chain.",
  ),
  "post /payments/{id}/release": op(
    "releasePayment",
    "Ends the reservation that `POST /verify` made for a purchase, so that the payer's money is available again. Only who knows the purchase's `grantId` can end it; `released` is false when there was none, or the payment was accepted.",
  ),
  "post /proofs/verify": op(
    "verifyProof",
    "Returns whether this Facilitator signed the proof and its payment is still settled. Gates check the signature themselves and call this where a reorganisation matters.",
  ),
  "post /subscriptions": op(
    "createSubscription",
    `Signs a subscriber up to a plan and collects the first period in one transaction. ${SIGNED}`,
    "UnknownPlan",
    "IdHashUsed",
    "InsufficientFunds",
    "PermitTooLow",
    "PlanDeprecated",
    "PlanStopped",
    "InvalidSignature",
    "InvalidVoucher",
    "UntilReached",
  ),
  "post /subscriptions/void": op(
    "voidSignup",
    `Voids a signup that was signed for a secret and is not used: it can never be submitted afterwards. ${SIGNED}`,
    "IdHashUsed",
    "InsufficientFunds",
    "InvalidSignature",
  ),
  "get /subscriptions/{idHash}": op(
    "getSubscription",
    "Returns a subscription's status, its paid period and its allowance, by its public hash. The secret id never leaves the subscriber and the gate.",
    "UnknownSubscription",
  ),
  "get /subscriptions/{idHash}/quote": op(
    "quotePlanChange",
    "Returns the price, the credit for unused time and the charge of a change to another plan, at this moment. Sign `maxCharge` from it.",
    "UnknownSubscription",
    "UnknownPlan",
    "PlanMismatch",
    "PlanDeprecated",
    "PlanStopped",
    "CreditExceedsPrice",
  ),
  "post /subscriptions/{idHash}/pause": op("pauseSubscription", `Pauses a subscription. ${SIGNED}`, ...CHANGE),
  "post /subscriptions/{idHash}/resume": op(
    "resumeSubscription",
    `Resumes a paused or expired subscription, and charges at most \`maxCharge\` where a new period begins. ${SIGNED}`,
    ...CHANGE,
    "NothingToResume",
    "PlanDeprecated",
    "PlanStopped",
    "ChargeAboveMax",
    "InsufficientFunds",
  ),
  "post /subscriptions/{idHash}/cancel": op(
    "cancelSubscription",
    `Cancels a subscription, at once or at the end of its paid period. ${SIGNED}`,
    ...CHANGE,
  ),
  "post /subscriptions/{idHash}/max-overage": op(
    "setMaxOverage",
    `Sets the cap of metered overage per cycle. ${SIGNED}`,
    ...CHANGE,
  ),
  "post /subscriptions/{idHash}/next": op(
    "setNext",
    `Sets the end of a subscription, and the plan that its next charged period changes to. Each replaces what was set. A due renewal is collected first. ${SIGNED}`,
    ...CHANGE,
    "UnknownPlan",
    "PlanMismatch",
    "PlanDeprecated",
    "PlanStopped",
    "TermsDiffer",
    "UntilReached",
    "Ending",
  ),
  "post /subscriptions/{idHash}/plan": op(
    "changePlan",
    `Moves a subscription to another plan of the same provider. A due renewal is collected first. ${SIGNED}`,
    ...CHANGE,
    "UnknownPlan",
    "PlanMismatch",
    "PlanDeprecated",
    "PlanStopped",
    "ChargeAboveMax",
    "Ending",
    "UntilReached",
  ),
  "post /subscriptions/{idHash}/rekey": op(
    "rekeySubscription",
    `Moves a subscription to a fresh secret after its id leaked. ${SIGNED}`,
    ...CHANGE,
    "IdHashUsed",
  ),
  "get /accounts/{address}": op(
    "getAccount",
    "Returns an account's balance, its token approval for Turnpike and its permit nonce, read from the chain.",
    "PaymentNotAllowed",
  ),
  "get /accounts/{address}/subscriptions": op(
    "listAccountSubscriptions",
    `Lists an account's subscriptions, newest first. ${PAGED}`,
  ),
  "post /permits": op(
    "submitPermit",
    "Submits an EIP-2612 permit for Turnpike to the token. A repetition of an applied permit succeeds.",
    "InvalidSignature",
    "PaymentNotAllowed",
  ),
  "get /plans": op("listPlans", `Lists plans in the order of their creation. ${PAGED}`),
  "get /plans/{planId}": op(
    "getPlan",
    "Returns the terms of one plan, and whether it is deprecated or stopped.",
    "UnknownPlan",
  ),
  "post /verify": op(
    "verifyX402",
    "Implements `POST /verify` of x402 versions 1 and 2: returns whether the payload would settle and buy something. Nothing moves. With `grant`, it also reserves the amount for that purchase until the payment is settled, released, or past its `validBefore`.",
  ),
  "post /settle": op(
    "settleX402",
    "Implements `POST /settle` of x402 versions 1 and 2: settles the payload and grants the payment to one purchase. `settlement_pending` means that the outcome is unknown; send the same body again.",
  ),
  "get /supported": op(
    "getSupported",
    "Lists chains, tokens, proof signers, relayers and contracts, and the `kinds` that stock x402 clients read.",
  ),
  "post /keys/challenge": op(
    "createKeyChallenge",
    "Returns what the provider's wallet signs to get an API key: EIP-712 typed data and an EIP-4361 message. A challenge is valid once and for a short time.",
  ),
  "post /keys": op(
    "createKey",
    "Creates an API key for the provider whose wallet signed the challenge. The answer is the only place that has the key: store it.",
    "InvalidSignature",
  ),
  "get /keys": op("listKeys", "Lists the provider's API keys with their scopes and times, without their secrets."),
  "get /keys/current": op(
    "getCurrentKey",
    "Returns the provider, the scopes and the expiry of the API key of this request.",
  ),
  "post /keys/rotate": op(
    "rotateKey",
    "Creates a successor of the API key of this request. The old key stays valid for `overlapSec`.",
  ),
  "delete /keys/{id}": op(
    "revokeKey",
    "Revokes an API key for good. A key may revoke itself; revoking another one requires the scope `keys`.",
    "ScopeMissing",
  ),
  "get /events": op(
    "listEvents",
    "Lists the provider's events after a cursor, in order. Store `next` and pass it later, also when nothing follows yet. A cursor before events that were deleted because of their age gets `EventsDeleted`, which names the cursor to continue with; events of that kind are never skipped silently.",
    "EventsDeleted",
  ),
  "post /debits": op(
    "createDebits",
    "Debits allowances of the provider's subscribers, each item with an outcome of its own. An idHash and index is debited once, so a repetition is safe.",
  ),
  "post /debits/rights": op(
    "getDebitRights",
    "Returns which plans the provider may debit through this Facilitator, and the accounts that must be operators of the others.",
  ),
  "get /webhook-endpoints": op(
    "listWebhookEndpoints",
    "Lists the provider's webhook endpoints, without their secrets.",
  ),
  "post /webhook-endpoints": op(
    "createWebhookEndpoint",
    "Creates a webhook endpoint. The answer is the only place that has its signing secret: store it.",
  ),
  "get /webhook-endpoints/{id}": op(
    "getWebhookEndpoint",
    "Returns one webhook endpoint with its state and event types.",
  ),
  "patch /webhook-endpoints/{id}": op(
    "updateWebhookEndpoint",
    "Changes the given fields. Disabling an endpoint drops its waiting deliveries; enabling it starts with the next event.",
  ),
  "delete /webhook-endpoints/{id}": op("deleteWebhookEndpoint", "Deletes a webhook endpoint and its deliveries."),
  "post /webhook-endpoints/{id}/rotate-secret": op(
    "rotateWebhookSecret",
    "Creates a new signing secret. Deliveries carry signatures of both secrets for `overlapSec`.",
  ),
  "get /webhook-endpoints/{id}/deliveries": op(
    "listDeliveries",
    `Lists an endpoint's deliveries, newest first. ${PAGED}`,
  ),
  "get /webhook-endpoints/{id}/deliveries/{eventId}": op("getDelivery", "Returns one delivery with all its attempts."),
  "post /webhook-endpoints/{id}/deliveries/{eventId}/resend": op(
    "resendDelivery",
    "Queues an event of the provider for the endpoint again, or for the first time. Its id stays the same.",
  ),
  "post /webhook-endpoints/{id}/test": op(
    "testWebhookEndpoint",
    "Queues an event of the type `webhook.test` for the endpoint.",
  ),
  "get /discovery/resources": op(
    "listResources",
    "Lists the resources that providers put here, in the shape that stock `bazaar` clients of x402 versions 1 and 2 read. A resource for both versions is two items. Prices come from the URL's own 402 at `lastUpdated`; text comes from the provider, so escape it.",
  ),
  "get /discovery/search": op(
    "searchResources",
    "Searches URL, description, name and tags of the listed resources for the words of `query`, best matches first. Pass `pagination.cursor` as `cursor` for the following page.",
  ),
  "get /discovery/listings": op(
    "listListings",
    "Lists the provider's own listings with their state. `problem` states why the last check of a hidden one failed.",
  ),
  "post /discovery/listings": op(
    "createListing",
    "Lists a route template, without query values. This service asks the URL for its 402, and shows the listing once every payee on this network is the provider's own. The same method and URL keeps its id and is checked again (200).",
  ),
  "get /discovery/listings/{id}": op("getListing", "Returns one listing of the provider with its state."),
  "delete /discovery/listings/{id}": op("deleteListing", "Removes a listing of the provider from the catalogue."),
  "get /audit": op(
    "listAudit",
    `Lists administrative acts, newest first: key, act, subject, time and address. ${PAGED}`,
  ),
  "get /analytics/overview": op(
    "getOverview",
    `Returns volume, subscriptions, renewals and payments, with those of the range before. ${RANGE}`,
  ),
  "get /analytics/volume": op("getVolume", `Returns received amounts by hour or day and by scheme. ${RANGE}`),
  "get /analytics/plans": op(
    "getPlanFigures",
    `Returns each plan's price, active subscriptions and revenue, highest revenue first. ${RANGE}`,
  ),
  "get /analytics/payers": op(
    "getPayers",
    "Returns the payers with the highest total since the beginning, or the total of one payer.",
  ),
  "get /analytics/payments": op("listPayments", `Lists one-time payments, newest first. ${PAGED}`),
  "get /analytics/charges": op(
    "listCharges",
    `Lists what one payer's subscriptions were charged in one token, newest first. ${PAGED}`,
  ),
  "get /analytics/subscriptions": op(
    "listSubscriptions",
    `Lists subscriptions to the provider's plans with their allowances, newest first. ${PAGED}`,
  ),
  "get /analytics/system": op("getSystem", "Returns the checks of `/readyz`, always with status 200, for dashboards."),
  "get /analytics/funnel": op(
    "getFunnel",
    `Returns how many requests were asked to pay, paid and served, and the revenue lost by cause, as the provider's gates report them. ${RANGE}`,
  ),
  "get /analytics/renewals": op("getRenewals", `Returns renewals by day, and the causes of failed attempts. ${RANGE}`),
  "get /analytics/failed-renewals": op(
    "getFailedRenewals",
    `Returns renewals that were not charged at once, by cause: lost, open or recovered. ${RANGE}`,
  ),
  "get /analytics/recurring": op(
    "getRecurring",
    `Returns the revenue that recurs in 30 days for each day, and the subscriptions that were lost. ${RANGE}`,
  ),
  "get /analytics/latency": op(
    "getLatency",
    `Returns percentiles of the time from acceptance to settlement, of the newest payments of the range. ${RANGE}`,
  ),
  "get /analytics/allowances": op(
    "listAllowances",
    `Lists the allowances of the provider's subscribers with the spent amounts, newest subscription first. ${PAGED}`,
  ),
  "post /reports": op(
    "createReport",
    "Stores a gate's counts of one hour: requests that were asked to pay, refused, paid and served. An id counts once, so a repetition is safe.",
    "PayloadConflict",
  ),
  "get /transactions/{hash}/cost": op(
    "getTransactionCost",
    "Returns the gas cost of one of this Facilitator's transactions, also in token cents where the coin's price is set.",
  ),
  "get /operator/system": op(
    "getOperatorSystem",
    "Returns the chain's head, the lanes with their balances, the queues and the costs of the last day.",
  ),
  "get /operator/overview": op(
    "getOperatorOverview",
    `Returns volume, subscriptions, renewals and payments of all providers, with those of the range before. ${RANGE}`,
  ),
  "get /operator/volume": op(
    "getOperatorVolume",
    `Returns what all providers received, by hour or day and by scheme. ${RANGE}`,
  ),
  "get /operator/providers": op(
    "getOperatorProviders",
    `Returns what each provider received, highest volume first. ${RANGE}`,
  ),
  "get /operator/funnel": op("getOperatorFunnel", `Returns the funnel over the gates of all providers. ${RANGE}`),
  "get /operator/renewals": op(
    "getOperatorRenewals",
    `Returns renewals of all providers by day, and the causes of failed attempts. ${RANGE}`,
  ),
  "get /operator/recurring": op(
    "getOperatorRecurring",
    `Returns the recurring revenue of all providers for each day. ${RANGE}`,
  ),
  "get /operator/costs": op(
    "getOperatorCosts",
    `Returns the costs of final transactions by purpose and by day, and per payment, renewal or debit. ${RANGE}`,
  ),
  "get /healthz": op(
    "getHealth",
    "Returns 200 while the process answers. It reads neither the chain nor the database.",
  ),
  "get /readyz": op(
    "getReadiness",
    "Returns whether the service can settle now, with one check each for database, chain, indexer and lanes. 503 when a check fails.",
  ),
  "post /sandbox/session": op(
    "createSandboxSession",
    "Returns the API key of the sandbox's provider, for the sandbox's own page on this machine. Exists in a sandbox only.",
    "AccessRefused",
  ),
  "get /sandbox/clock": op(
    "getSandboxClock",
    "Returns the chain's time, its target, and the next renewal. Exists in a sandbox only.",
  ),
  "post /sandbox/clock": op(
    "moveSandboxClock",
    "Moves the chain's time forward; renewals and webhooks happen on the way. Exists in a sandbox only.",
  ),
};

export const TAGS: Readonly<Record<string, string>> = {
  payments: "One-time payments: settle, status, proofs.",
  subscriptions: "Signups and changes that a subscriber signed, and the status of a subscription.",
  accounts: "Balances, token approvals and subscriptions of an account.",
  plans: "Plans of all providers.",
  x402: "The standard x402 Facilitator API, versions 1 and 2.",
  keys: "API keys of a provider, and the audit log.",
  events: "The provider's events, to poll instead of webhooks.",
  debits: "Metered usage: debits of allowances.",
  webhooks: "Webhook endpoints and their deliveries.",
  discovery: "The catalogue of paid resources, and the listings of a provider.",
  analytics: "Figures of one provider.",
  operator: "Figures of the whole service, for its operator.",
  service: "Health, readiness and transaction costs.",
  sandbox: "Exists in a local sandbox only.",
};
