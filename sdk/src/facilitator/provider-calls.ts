/** The client's calls for a provider: its events, labels, debits, reports, automatic refunds and API keys. */
import { type Address, caip2Of, type Hex, type TypedData, Unavailable } from "../protocol";
import {
  type DebitAnswer,
  type DebitRequestWire,
  type DebitRight,
  debitRightsResponseSchema,
  debitsResponseSchema,
} from "./debits";
import { type ApiScope, apiKeyTypedData, challengeSchema, type NewApiKey, newKeySchema } from "./keys";
import { type Label, labelListSchema, labelSchema } from "./labels";
import {
  type RefundAccount,
  type RefundAccountList,
  type RefundAccountTerms,
  refundAccountListSchema,
  refundAccountSchema,
  refundAccountTypedData,
} from "./refund-accounts";
import { refundResponseSchema } from "./refunds";
import { type ReportReceipt, type ReportWire, reportReceiptSchema } from "./reports";
import { type EventList, eventListSchema } from "./service";
import type { RefundOutcome } from "./settlement-calls";
import {
  type CallOptions,
  type Calls,
  type ChainCallOptions,
  isDone,
  type LookUp,
  type PageOptions,
  pending,
  type Refused,
  read,
  refusal,
} from "./transport";

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

export const providerCalls = (calls: Calls) => ({
  /** The provider's own, of all chains unless `network` names one; needs an API key with the scope `read`. */
  async events({
    cursor,
    limit,
    type,
    network,
    signal,
  }: PageOptions & { readonly type?: string } = {}): Promise<LookUp<EventList>> {
    const query = { cursor, limit, type, network };
    return calls.lookUp("GET /events", eventListSchema, { query, signal });
  },

  /** The labels of the provider's payers and plans; needs the scope `read`. */
  async labels({ network, ...call }: ChainCallOptions = {}): Promise<LookUp<readonly Label[]>> {
    const found = await calls.lookUp("GET /labels", labelListSchema, { query: { network }, ...call });
    return found.kind === "found" ? { kind: "found", value: found.value.labels } : found;
  },

  /** Labels a payer or one of the provider's plans; an empty text removes the label. Needs the scope `webhooks`. */
  async setLabel(label: Label, { network, ...call }: ChainCallOptions = {}): Promise<LookUp<Label>> {
    return calls.lookUp("POST /labels", labelSchema, { query: { network }, body: label, ...call });
  },

  /**
   * Debits allowances of the provider's subscribers; needs an API key with the scope `debits`. Safe to repeat: an
   * idHash and index is debited once.
   */
  async debits(items: readonly DebitRequestWire[], { signal }: CallOptions = {}): Promise<DebitsOutcome> {
    const answer = await calls.exchange("POST /debits", { body: items, signal });
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
    const answer = await calls.exchange("POST /debits/rights", { body: { planIds }, signal });
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
    const answer = await calls.exchange("POST /reports", { query: { network }, body: report, signal });
    return answer.status === 200 ? { kind: read(reportReceiptSchema, answer).status } : refusal(answer);
  },

  /**
   * Has a whole payment refunded from the account that its payee has named; needs the scope `refunds`. Safe to repeat: a
   * payment is refunded automatically once.
   * @throws Unavailable, also when the daily cap is used up: its `cause` is RateLimited with the reason `refund_cap`
   */
  async refundPayment(paymentId: Hex, { signal }: CallOptions = {}): Promise<RefundOutcome> {
    const answer = await calls.exchange("POST /payments/{id}/refund", { params: { id: paymentId }, signal });
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
    return calls.lookUp("POST /refund-accounts", refundAccountSchema, { query, body: named, signal });
  },

  /** The accounts of the provider's automatic refunds, and what is left of their caps; needs the scope `read`. */
  async refundAccounts({ network, ...call }: ChainCallOptions = {}): Promise<LookUp<RefundAccountList>> {
    return calls.lookUp("GET /refund-accounts", refundAccountListSchema, { query: { network }, ...call });
  },

  /** Ends automatic refunds of one token at once; needs the scope `refunds`. Only a new signature resumes them. */
  async revokeRefundAccount(
    token: Address,
    { network, ...call }: ChainCallOptions = {},
  ): Promise<LookUp<RefundAccount>> {
    const input = { params: { token }, query: { network }, ...call };
    return calls.lookUp("DELETE /refund-accounts/{token}", refundAccountSchema, input);
  },

  /** An API key for a wallet that signs for it. The key itself is in this answer alone. */
  async createKey({ sign, facilitator, chainId, ...wanted }: WantedKey, call: CallOptions = {}): Promise<KeyOutcome> {
    const query = { network: caip2Of(chainId) };
    const asked = await calls.exchange("POST /keys/challenge", { query, body: wanted, ...call });
    if (asked.status !== 200) return refusal(asked);
    const { challenge, expiresAt, ...theirs } = read(challengeSchema, asked);
    if (theirs.facilitator !== facilitator || theirs.chainId !== chainId) {
      throw new Unavailable("The challenge is another Facilitator's: nothing was signed.");
    }
    const signature = await sign(apiKeyTypedData({ ...wanted, expiresAt, challenge, facilitator, chainId }));
    const body = { ...wanted, expiresAt, challenge, signature };
    const answer = await calls.exchange("POST /keys", { query, body, ...call });
    return isDone(answer) ? { kind: "created", key: read(newKeySchema, answer) } : refusal(answer);
  },
});
