/**
 * The typed client of the Facilitator's HTTP API: one method per endpoint, of payments, subscriptions and providers.
 * Expected outcomes are returned as unions.
 * @throws Unavailable (from every method) when there was no usable answer: the outcome is unknown, ask again
 */
import {
  type Address,
  caip2Of,
  type Hex,
  type PaymentProof,
  type PaymentProofWire,
  type SignedPaymentWire,
  type TypedData,
  Unavailable,
} from "../protocol";
import { type ApiScope, apiKeyTypedData, challengeSchema, type NewApiKey, newKeySchema } from "./keys";
import {
  authorizeResponseSchema,
  type PaymentStatus,
  type ProofVerdict,
  paymentStatusSchema,
  releaseResponseSchema,
  verifyProofResponseSchema,
  type X402RequestWire,
  type X402Settlement,
  type X402Verdict,
  x402SettleResponseSchema,
  x402VerifyResponseSchema,
} from "./payments";
import {
  type RefundAccount,
  type RefundAccountList,
  type RefundAccountTerms,
  refundAccountListSchema,
  refundAccountSchema,
  refundAccountTypedData,
} from "./refund-accounts";
import {
  type RefundList,
  type RefundRequestWire,
  refundListSchema,
  refundResponseSchema,
  type SettledRefund,
} from "./refunds";
import { type ReportReceipt, type ReportWire, reportReceiptSchema } from "./reports";
import { type EventList, eventListSchema, type Supported, supportedSchema } from "./service";
import {
  type Account,
  accountSchema,
  type ChangeAct,
  type ChangeQuote,
  type ChangeRequestWire,
  changeQuoteSchema,
  type DebitAnswer,
  type DebitRequestWire,
  type DebitRight,
  debitRightsResponseSchema,
  debitsResponseSchema,
  type PermitRequestWire,
  type PermitResult,
  type Plan,
  type PlanList,
  permitResponseSchema,
  planListSchema,
  planSchema,
  type SubscribeRequestWire,
  type Subscription,
  type SubscriptionList,
  subscriptionListSchema,
  subscriptionSchema,
  type VoidRequestWire,
} from "./subscriptions";
import {
  type CallOptions,
  type Calls,
  type ChainCallOptions,
  type ChangeOutcome,
  createCalls,
  isDone,
  type LookUp,
  type PageOptions,
  type PaymentCallOptions,
  type Pending,
  pending,
  type Refused,
  read,
  refusal,
  type TransportOptions,
} from "./transport";

export type {
  CallOptions,
  ChainCallOptions,
  ChangeOutcome,
  Found,
  LookUp,
  PageOptions,
  PaymentCallOptions,
  Pending,
  Refused,
} from "./transport";

/** Where the Facilitator is, and how long an answer may take. */
export type FacilitatorClientOptions = TransportOptions;

/** One method for each endpoint. Each throws Unavailable when there was no usable answer. */
export type FacilitatorClient = ReturnType<typeof createFacilitatorClient>;

/** @throws ConfigError for a url that is no plain http(s) address */
export function createFacilitatorClient(options: FacilitatorClientOptions) {
  const calls = createCalls(options);
  return { ...paymentCalls(calls), ...subscriptionCalls(calls), ...providerCalls(calls) };
}

/** What became of a payment. */
export type AuthorizeOutcome = { readonly kind: "settled"; readonly proof: PaymentProof } | Pending | Refused;

/** What became of a refund. */
export type RefundOutcome = { readonly kind: "settled"; readonly refund: SettledRefund } | Pending | Refused;

/** About one-time payments, their proofs, and refunds. */
const paymentCalls = (calls: Calls) => ({
  /** Has a signed transfer settled. Safe to repeat for ever: the same request gets the same proof. */
  async authorize(signedPayment: SignedPaymentWire, { signal }: CallOptions = {}): Promise<AuthorizeOutcome> {
    const answer = await calls.exchange({ method: "POST", path: "/authorize", body: { signedPayment }, signal });
    if (answer.status === 200) return { kind: "settled", proof: read(authorizeResponseSchema, answer).proof };
    return answer.status === 202 ? pending(answer) : refusal(answer);
  },

  /** Has a signed refund settled. Safe to repeat: an id and index is refunded once. */
  async refund(request: RefundRequestWire, { signal }: CallOptions = {}): Promise<RefundOutcome> {
    const answer = await calls.exchange({ method: "POST", path: "/refunds", body: request, signal });
    if (answer.status === 200) return { kind: "settled", refund: read(refundResponseSchema, answer) };
    return answer.status === 202 ? pending(answer) : refusal(answer);
  },

  /** The settled refunds of a payment, a debit or a charge, by the id that they are counted under. */
  async refunds(id: Hex, call: CallOptions = {}): Promise<LookUp<RefundList>> {
    return calls.lookUp(refundListSchema, { method: "GET", path: `/refunds/${id}`, ...call });
  },

  /** How a payment ended, by its id: never its proof, memo or resource. */
  async payment(id: Hex, call: CallOptions = {}): Promise<LookUp<PaymentStatus>> {
    return calls.lookUp(paymentStatusSchema, { method: "GET", path: `/payments/${id}`, ...call });
  },

  /** Verifies a proof; `valid: false` when its payment was reversed. */
  async verifyProof(proof: PaymentProofWire, call: PaymentCallOptions = {}): Promise<ProofVerdict> {
    const answer = await calls.exchange({ method: "POST", path: "/proofs/verify", body: { proof }, ...call });
    if (answer.status === 200) return read(verifyProofResponseSchema, answer);
    const { error } = refusal(answer);
    return { valid: false, reason: error.code };
  },

  /**
   * Standard x402: would this payload settle? With `grant`, also reserves the amount for that purchase until it is
   * settled, released, or `validBefore` passes.
   */
  async x402Verify(request: X402RequestWire, call: PaymentCallOptions = {}): Promise<X402Verdict> {
    const answer = await calls.exchange({ method: "POST", path: "/verify", body: withVersion(request), ...call });
    if (answer.status === 200) return read(x402VerifyResponseSchema, withoutNulls(answer));
    const { error } = refusal(answer);
    return { isValid: false, invalidReason: error.code, invalidMessage: error.message };
  },

  /** Ends the reservation that `x402Verify` made for a purchase. @returns whether there was one; safe to repeat */
  async releasePayment(paymentId: Hex, grantId: Hex, call: CallOptions = {}): Promise<boolean> {
    const path = `/payments/${paymentId}/release`;
    const answer = await calls.exchange({ method: "POST", path, body: { grantId }, ...call });
    if (answer.status === 200) return read(releaseResponseSchema, answer).released;
    throw refusal(answer).error;
  },

  /** Standard x402: settle. A 503 (outcome unknown) throws Unavailable; asking again does not pay twice. */
  async x402Settle(request: X402RequestWire, call: PaymentCallOptions = {}): Promise<X402Settlement> {
    const answer = await calls.exchange({ method: "POST", path: "/settle", body: withVersion(request), ...call });
    if (answer.status === 200) return read(x402SettleResponseSchema, withoutNulls(answer));
    const { error } = refusal(answer);
    const { network } = request.paymentRequirements;
    return { success: false, errorReason: error.code, errorMessage: error.message, transaction: "", network };
  },
});

/** Facilitators of another make write null for a field that is absent. */
function withoutNulls<A extends { readonly json: unknown }>(answer: A): A {
  const { json } = answer;
  if (typeof json !== "object" || json === null) return answer;
  return { ...answer, json: Object.fromEntries(Object.entries(json).filter(([, value]) => value !== null)) };
}

const withVersion = (request: X402RequestWire) => ({ x402Version: request.paymentPayload.x402Version, ...request });

/** What became of a permit. */
export type PermitOutcome = { readonly kind: "done"; readonly permit: PermitResult } | Pending | Refused;

/** About subscriptions, plans and the accounts that sign for them. */
const subscriptionCalls = (calls: Calls) => ({
  /** Creates the subscription and collects the first period in one transaction; safe to repeat. */
  async subscribe(request: SubscribeRequestWire, call: CallOptions = {}): Promise<ChangeOutcome> {
    return calls.change("/subscriptions", request, call);
  },

  /** Has a signed `Void` submitted: a signup that was signed for its secret is worth nothing; safe to repeat. */
  async void(request: VoidRequestWire, call: CallOptions = {}): Promise<ChangeOutcome> {
    return calls.change("/subscriptions/void", request, call);
  },

  /** A subscription as the chain has it; amounts in base units, times in unix seconds. */
  async subscription(idHash: Hex, call: CallOptions = {}): Promise<LookUp<Subscription>> {
    return calls.lookUp(subscriptionSchema, { method: "GET", path: `/subscriptions/${idHash}`, ...call });
  },

  /** A wallet's subscriptions, as the Facilitator's index has them: the chain is the judge of each. */
  async subscriptionsOf(
    subscriber: Address,
    { network, ...call }: ChainCallOptions = {},
  ): Promise<LookUp<SubscriptionList>> {
    const path = `/accounts/${subscriber}/subscriptions`;
    return calls.lookUp(subscriptionListSchema, { method: "GET", path, query: { network }, ...call });
  },

  /** Submits a signed change of one subscription; safe to repeat. */
  async change<A extends ChangeAct>(
    { idHash, act, request }: { readonly idHash: Hex; readonly act: A; readonly request: ChangeRequestWire<A> },
    call: CallOptions = {},
  ): Promise<ChangeOutcome> {
    return calls.change(`/subscriptions/${idHash}/${act}`, request, call);
  },

  /** What `change({act: "plan"})` would charge now. */
  async quoteChange(
    { idHash, newPlanId }: { readonly idHash: Hex; readonly newPlanId: Hex },
    call: CallOptions = {},
  ): Promise<LookUp<ChangeQuote>> {
    const path = `/subscriptions/${idHash}/quote`;
    return calls.lookUp(changeQuoteSchema, { method: "GET", path, query: { newPlanId }, ...call });
  },

  /** Has a signed token approval submitted; safe to repeat. */
  async permit(request: PermitRequestWire, { signal }: CallOptions = {}): Promise<PermitOutcome> {
    const answer = await calls.exchange({ method: "POST", path: "/permits", body: request, signal });
    if (isDone(answer)) return { kind: "done", permit: read(permitResponseSchema, answer) };
    return answer.status === 202 ? pending(answer) : refusal(answer);
  },

  /** Returns a plan's terms; recompute the planId from them before you trust them. */
  async plan(planId: Hex, call: CallOptions = {}): Promise<LookUp<Plan>> {
    return calls.lookUp(planSchema, { method: "GET", path: `/plans/${planId}`, ...call });
  },

  /** Known plans, a page at a time. */
  async plans({
    provider,
    cursor,
    limit,
    network,
    signal,
  }: PageOptions & { readonly provider?: Address } = {}): Promise<LookUp<PlanList>> {
    const query = { provider, cursor, limit, network };
    return calls.lookUp(planListSchema, { method: "GET", path: "/plans", query, signal });
  },

  /** What a signer has to know of an account and a token: balance, approval, nonce, domain, chain time. */
  async account(
    { address, token }: { readonly address: Address; readonly token: Address },
    { network, ...call }: ChainCallOptions = {},
  ): Promise<LookUp<Account>> {
    const query = { token, network };
    return calls.lookUp(accountSchema, { method: "GET", path: `/accounts/${address}`, query, ...call });
  },
});

/** Returns whether a report was counted. */
export type ReportOutcome = { readonly kind: ReportReceipt["status"] } | Refused;

/** What became of each debit. */
export type DebitsOutcome = { readonly kind: "answered"; readonly results: readonly DebitAnswer[] } | Refused;

/** Which plans the API key's owner may have debited, and by which accounts; or why the key itself is refused. */
export type DebitRightsOutcome =
  | { readonly kind: "answered"; readonly relayers: readonly Address[]; readonly rights: readonly DebitRight[] }
  | Refused;

/** A new API key, or why there is none. */
export type KeyOutcome = { readonly kind: "created"; readonly key: NewApiKey } | Refused;

/** The API key that is asked for, and who signs for it. */
export interface WantedKey {
  /** the provider's wallet */
  readonly provider: Address;
  readonly name: string;
  readonly scopes: readonly ApiScope[];
  /** unix seconds; default a year from now */
  readonly expiresAt?: number;
  /** address of the Facilitator's proof signer: nothing is signed for another */
  readonly facilitator: Address;
  readonly chainId: number;
  /** Signs the challenge with the provider's wallet. */
  sign(data: TypedData): Promise<Hex>;
}

/** The account of automatic refunds that a provider names, and who signs for it. */
export interface WantedRefundAccount extends RefundAccountTerms {
  /** Signs with the provider's wallet. */
  sign(data: TypedData): Promise<Hex>;
}

/** For a provider: its events, debits, reports, automatic refunds and API keys. */
const providerCalls = (calls: Calls) => ({
  /** Networks, tokens, schemes and signers of this Facilitator. */
  async supported(call: CallOptions = {}): Promise<Supported> {
    const found = await calls.lookUp(supportedSchema, { method: "GET", path: "/supported", ...call });
    if (found.kind === "refused") throw new Unavailable(found.error.message, { cause: found.error });
    return found.value;
  },

  /** The provider's own, of all chains unless `network` names one; needs an API key with the scope `read`. */
  async events({
    cursor,
    limit,
    type,
    network,
    signal,
  }: PageOptions & { readonly type?: string } = {}): Promise<LookUp<EventList>> {
    const query = { cursor, limit, type, network };
    return calls.lookUp(eventListSchema, { method: "GET", path: "/events", query, signal });
  },

  /**
   * Debits allowances of the provider's subscribers; needs an API key with the scope `debits`. Safe to repeat: an
   * idHash and index is debited once.
   */
  async debits(items: readonly DebitRequestWire[], { signal }: CallOptions = {}): Promise<DebitsOutcome> {
    const answer = await calls.exchange({ method: "POST", path: "/debits", body: items, signal });
    if (answer.status !== 200 && answer.status !== 202) return refusal(answer);
    const results = read(debitsResponseSchema, answer);
    const isComplete = items.every(
      ({ idHash, index }, place) => results[place]?.idHash === idHash.toLowerCase() && results[place]?.index === index,
    );
    if (!isComplete || results.length !== items.length) {
      throw new Unavailable("The Facilitator's answer is not about the debits that were asked for.");
    }
    return { kind: "answered", results };
  },

  /**
   * Returns whether debits of these plans would be collected for the API key's owner; needs the scope `debits`. Moves
   * nothing.
   */
  async debitRights(planIds: readonly Hex[], { signal }: CallOptions = {}): Promise<DebitRightsOutcome> {
    const answer = await calls.exchange({ method: "POST", path: "/debits/rights", body: { planIds }, signal });
    if (answer.status !== 200) return refusal(answer);
    const { relayers, rights } = read(debitRightsResponseSchema, answer);
    const isComplete = planIds.every((planId, place) => rights[place]?.planId === planId.toLowerCase());
    if (!isComplete || rights.length !== planIds.length) {
      throw new Unavailable("The Facilitator's answer is not about the plans that were asked for.");
    }
    return { kind: "answered", relayers, rights };
  },

  /** Reports what a gate has counted; needs an API key with the scope `reports`. Safe to repeat: an id counts once. */
  async report(report: ReportWire, { network, signal }: ChainCallOptions = {}): Promise<ReportOutcome> {
    const query = { network };
    const answer = await calls.exchange({ method: "POST", path: "/reports", query, body: report, signal });
    return answer.status === 200 ? { kind: read(reportReceiptSchema, answer).status } : refusal(answer);
  },

  /**
   * Has a whole payment refunded from the account that its payee has named; needs the scope `refunds`. Safe to repeat: a
   * payment is refunded automatically once.
   * @throws Unavailable, also when the daily cap is used up: its `cause` is RateLimited with the reason `refund_cap`
   */
  async refundPayment(paymentId: Hex, { signal }: CallOptions = {}): Promise<RefundOutcome> {
    const path = `/payments/${paymentId}/refund`;
    const answer = await calls.exchange({ method: "POST", path, signal });
    if (answer.status === 200) return { kind: "settled", refund: read(refundResponseSchema, answer) };
    return answer.status === 202 ? pending(answer) : refusal(answer);
  },

  /** Names the account that automatic refunds of one token are paid from. The provider's signature authorizes it. */
  async nameRefundAccount(
    { sign, ...terms }: WantedRefundAccount,
    { signal }: CallOptions = {},
  ): Promise<LookUp<RefundAccount>> {
    const signature = await sign(refundAccountTypedData(terms));
    const { provider, account, token, dailyCap, version, expiresAt } = terms;
    const named = { provider, account, token, dailyCap: dailyCap.toString(), version, expiresAt, signature };
    const query = { network: caip2Of(terms.chainId) };
    return calls.lookUp(refundAccountSchema, { method: "POST", path: "/refund-accounts", query, body: named, signal });
  },

  /** The accounts of the provider's automatic refunds, and what is left of their caps; needs the scope `read`. */
  async refundAccounts({ network, ...call }: ChainCallOptions = {}): Promise<LookUp<RefundAccountList>> {
    const query = { network };
    return calls.lookUp(refundAccountListSchema, { method: "GET", path: "/refund-accounts", query, ...call });
  },

  /** Ends automatic refunds of one token at once; needs the scope `refunds`. Only a new signature resumes them. */
  async revokeRefundAccount(
    token: Address,
    { network, ...call }: ChainCallOptions = {},
  ): Promise<LookUp<RefundAccount>> {
    const path = `/refund-accounts/${token}`;
    return calls.lookUp(refundAccountSchema, { method: "DELETE", path, query: { network }, ...call });
  },

  /** An API key for a wallet that signs for it. The key itself is in this answer alone. */
  async createKey({ sign, facilitator, chainId, ...wanted }: WantedKey, call: CallOptions = {}): Promise<KeyOutcome> {
    const query = { network: caip2Of(chainId) };
    const asked = await calls.exchange({ method: "POST", path: "/keys/challenge", query, body: wanted, ...call });
    if (asked.status !== 200) return refusal(asked);
    const { challenge, expiresAt, ...theirs } = read(challengeSchema, asked);
    if (theirs.facilitator !== facilitator || theirs.chainId !== chainId) {
      throw new Unavailable("The challenge is another Facilitator's: nothing was signed.");
    }
    const signature = await sign(apiKeyTypedData({ ...wanted, expiresAt, challenge, facilitator, chainId }));
    const body = { ...wanted, expiresAt, challenge, signature };
    const answer = await calls.exchange({ method: "POST", path: "/keys", query, body, ...call });
    return isDone(answer) ? { kind: "created", key: read(newKeySchema, answer) } : refusal(answer);
  },
});
