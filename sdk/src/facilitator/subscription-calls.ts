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
  async subscribe(request: SubscribeRequestWire, { signal }: CallOptions = {}): Promise<ChangeOutcome> {
    return calls.change("POST /subscriptions", { body: request, signal });
  },

  /** Has a signed `Void` submitted: a signup that was signed for its secret is worth nothing; safe to repeat. */
  async void(request: VoidRequestWire, { signal }: CallOptions = {}): Promise<ChangeOutcome> {
    return calls.change("POST /subscriptions/void", { body: request, signal });
  },

  /** A subscription as the chain has it; amounts in base units, times in unix seconds. */
  async subscription(idHash: Hex, call: CallOptions = {}): Promise<LookUp<Subscription>> {
    return calls.lookUp("GET /subscriptions/{idHash}", subscriptionSchema, { params: { idHash }, ...call });
  },

  /** A wallet's subscriptions, as the Facilitator's index has them: the chain is the judge of each. */
  async subscriptionsOf(
    subscriber: Address,
    { network, cursor, limit, ...call }: PageOptions = {},
  ): Promise<LookUp<SubscriptionList>> {
    const input = { params: { address: subscriber }, query: { network, cursor, limit }, ...call };
    return calls.lookUp("GET /accounts/{address}/subscriptions", subscriptionListSchema, input);
  },

  /** Submits a signed change of one subscription; safe to repeat. */
  async change<A extends ChangeAct>(
    { idHash, act, request }: { readonly idHash: Hex; readonly act: A; readonly request: ChangeRequestWire<A> },
    { signal }: CallOptions = {},
  ): Promise<ChangeOutcome> {
    return calls.change(`POST /subscriptions/{idHash}/${act as ChangeAct}`, {
      params: { idHash },
      body: request,
      signal,
    });
  },

  /** What `change({act: "plan"})` would charge now. */
  async quoteChange(
    { idHash, newPlanId }: { readonly idHash: Hex; readonly newPlanId: Hex },
    call: CallOptions = {},
  ): Promise<LookUp<ChangeQuote>> {
    const input = { params: { idHash }, query: { newPlanId }, ...call };
    return calls.lookUp("GET /subscriptions/{idHash}/quote", changeQuoteSchema, input);
  },

  /** Has a signed token approval submitted; safe to repeat. */
  async permit(request: PermitRequestWire, { signal }: CallOptions = {}): Promise<PermitOutcome> {
    const answer = await calls.exchange("POST /permits", { body: request, signal });
    if (isDone(answer)) return { kind: "done", permit: read(permitResponseSchema, answer) };
    return answer.status === 202 ? pending(answer) : refusal(answer);
  },

  /** Returns a plan's terms; recompute the planId from them before you trust them. */
  async plan(planId: Hex, call: CallOptions = {}): Promise<LookUp<Plan>> {
    return calls.lookUp("GET /plans/{planId}", planSchema, { params: { planId }, ...call });
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
    return calls.lookUp("GET /plans", planListSchema, { query, signal });
  },

  /** What a signer has to know of an account and a token: balance, approval, nonce, domain, chain time. */
  async account(
    { address, token }: { readonly address: Address; readonly token: Address },
    { network, ...call }: ChainCallOptions = {},
  ): Promise<LookUp<Account>> {
    const query = { token, network };
    return calls.lookUp("GET /accounts/{address}", accountSchema, { params: { address }, query, ...call });
  },
});
