/** The client's calls about subscriptions, plans and the accounts that sign for them. */
import type { Address, Hex } from "../protocol";
import {
  type Account,
  accountSchema,
  type ChangeAct,
  type ChangeQuote,
  type ChangeRequestWire,
  changeQuoteSchema,
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
  isDone,
  type LookUp,
  type PageOptions,
  type Pending,
  pending,
  type Refused,
  read,
  refusal,
} from "./transport";

/** What became of a permit. */
export type PermitOutcome = { readonly kind: "done"; readonly permit: PermitResult } | Pending | Refused;

export const subscriptionCalls = (calls: Calls) => ({
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
