import type { Address, Hex } from "../protocol";
import { fieldsOf } from "../protocol/arguments";
import { Tracing } from "../protocol/tracing";
import { Lifetime, orNothingSigned, signalOf } from "./core/abort";
import { type AgentEnvironment, type AgentOptions, checkAgentOptions } from "./core/agent-options";
import type { AgentContext } from "./core/context";
import { createContext } from "./core/create-context";
import { registerAgent } from "./core/internals";
import type { Amount } from "./core/policy-options";
import type { RequestInput } from "./core/request";
import { agentFetch } from "./fetch";
import { charges, giveUp, payments, settleHeld } from "./payments/held";
import { type PayInit, pay } from "./payments/pay";
import type { PaidResponse } from "./payments/receipt";
import { type Credited, creditRefunds } from "./payments/refunds";
import { type BudgetView, budget, type ChargeView, type PaymentView } from "./payments/view";
import { type FoundRoutes, findRoutes } from "./pricing/find-routes";
import { type PriceQuote, quote } from "./pricing/price-quote";
import { type Audit, type AuditOptions, audit } from "./receipts/audit";
import { type ChangePlanOptions, changePlan } from "./subscriptions/change-plan";
import {
  type CancelOptions,
  cancel,
  pause,
  type ResumeOptions,
  rekey,
  resume,
  setMaxOverage,
  setUntil,
} from "./subscriptions/changes";
import type { SubscribeOptions } from "./subscriptions/offers";
import { watchPayees } from "./subscriptions/payees";
import { type TopUp, type TopUpOptions, topUp } from "./subscriptions/permits";
import { addOrigins, list, type RecoverOptions, recover } from "./subscriptions/recover";
import { voidSignup } from "./subscriptions/signup";
import { subscribe } from "./subscriptions/subscribe";
import type { Subscription, SubscriptionRef } from "./subscriptions/subscription";

/** An agent: pays and subscribes within its policy, by signatures alone. Amounts are base units. */
export interface Agent {
  /** The wallet's address, checksummed. */
  address(): Promise<Address>;
  /**
   * Requests `input` and pays for it if the provider asks and the policy allows it, at most once.
   * @returns the provider's response, with its receipt when it was paid for
   * @throws PolicyRefused when nothing that is offered may be paid; nothing was signed
   * @throws PaymentPending when a payment's outcome is unknown; the next call presents the same one
   * @throws TurnpikeError RateLimited, with `retryAfterSec`, when a rate limit refused the first post: nothing was submitted
   * @throws Unavailable when the chain or the Facilitator cannot be read; nothing was signed
   * @throws InvalidPaymentProof when the provider keeps rejecting the payment that was made
   * @throws AbortError when the signal of `init` aborts: `message` says whether anything was signed, and what to do
   */
  pay(input: RequestInput, init?: PayInit): Promise<PaidResponse>;
  /**
   * Requests like `fetch`: with a subscription where one is recorded for the origin, with a payment where the policy
   * allows it. Otherwise it returns the 402 as it came.
   * @throws as `fetch` does, and what `pay` throws once a payment was made
   */
  fetch(input: RequestInput, init?: PayInit): Promise<Response>;
  /** Returns what a URL costs by every offered way. Signs and pays nothing. */
  quote(input: RequestInput, init?: RequestInit): Promise<PriceQuote>;
  /**
   * Returns the priced routes of a site, as its /openapi.json lists them; undefined where it has none. Signs and pays
   * nothing. What a route costs is what `quote` returns of it.
   * @throws InvalidRequest when the URL is relative, or not http(s); Unavailable when the site cannot be asked
   */
  find(site: string | URL): Promise<FoundRoutes | undefined>;
  /**
   * Subscribes to a plan, within the policy, and pays its first period. Returns the active subscription on that plan where
   * the wallet has one already, also one that ends with its period.
   * @throws SubscriptionNotActive when the wallet's own one is paused or past due: `details.idHash` names it, `resume` or
   * funds make it active, and `another` buys a second one
   * @throws PolicyRefused, PlanDeprecated or InsufficientFunds
   * @throws PaymentPending when the outcome is unknown; the next call presents the same signup
   */
  subscribe(options: SubscribeOptions): Promise<Subscription>;
  /**
   * Finds this wallet's live subscriptions that were made under a plan, from the wallet's signatures and the chain
   * alone, and records them in the ledger. A wallet whose signatures differ from one time to the next finds none.
   */
  recover(options: RecoverOptions): Promise<Subscription[]>;
  /**
   * Every subscription in the ledger that has not ended, as the chain has it now: read by the agent's own RPC where it
   * has one, else by the Facilitator. With `policy.onPayeeChange` it first looks for another payee of their plans.
   */
  list(): Promise<Subscription[]>;
  /** Lets `fetch` use a subscription at these origins too. */
  addOrigins(ref: SubscriptionRef, origins: readonly string[]): Promise<readonly string[]>;
  /**
   * Stops renewals and service.
   * @throws TurnpikeError UnknownSubscription; PaymentPending when the outcome is unknown
   */
  pause(ref: SubscriptionRef): Promise<Subscription>;
  /** Ends a pause; after the paid period this charges the next one, at most `maxCharge`. */
  resume(ref: SubscriptionRef, options?: ResumeOptions): Promise<Subscription>;
  /** Ends it: at once, or at the end of what is paid. */
  cancel(ref: SubscriptionRef, options?: CancelOptions): Promise<Subscription>;
  /**
   * Raises or lowers the cap of metered overage, base units; a raise comes with the token approval it needs. The policy
   * must allow each cap but 0.
   */
  setMaxOverage(ref: SubscriptionRef, cap: Amount): Promise<Subscription>;
  /**
   * Moves to another plan of the same provider and token: at once for the quoted charge, or from the next charged period
   * on.
   * @throws TurnpikeError PlanMismatch
   */
  changePlan(ref: SubscriptionRef, options: ChangePlanOptions): Promise<Subscription>;
  /**
   * Sets, moves or removes (undefined) the end after which nothing is charged: unix seconds or a Date. Service goes on
   * until then, and until the paid period's end.
   */
  setUntil(ref: SubscriptionRef, until: number | Date | undefined): Promise<Subscription>;
  /**
   * Withdraws a signup whose outcome is not known, such as one behind a Facilitator that does not answer: its signature
   * is worth nothing then. Returns the subscription if it was made before.
   */
  void(ref: SubscriptionRef): Promise<Subscription | undefined>;
  /** Moves to a new id; the old one is invalid from then on. */
  rekey(ref: SubscriptionRef): Promise<Subscription>;
  /** Raises token approvals that have become low. */
  topUp(options?: TopUpOptions): Promise<TopUp[]>;
  /** Lists the ledger's payments, oldest first. */
  payments(): Promise<PaymentView[]>;
  /** Lists the charges of subscriptions that this agent signed for, oldest first. Renewals and debits are not among them. */
  charges(): Promise<ChargeView[]>;
  /** Returns how much of the last 24 hours' budget is taken, by this agent and all that share its ledger. */
  budget(): Promise<BudgetView>;
  /** Asks for the outcome of payments that are not known to have settled, as after a restart. */
  settleHeld(): Promise<PaymentView[]>;
  /**
   * Credits refunds to the budget, where the agent's own RPC proves them: of the last day's payments, and of the charges
   * that a signup, a plan change or a resumption made. Returns what was credited; without an RPC nothing is.
   */
  creditRefunds(): Promise<Credited[]>;
  /**
   * Compares the usage receipts that the agent holds with what the chain shows as debited, for each subscription and
   * cycle. Needs the agent's own RPC.
   * @throws ConfigError without an RPC of the chain; Unavailable
   */
  audit(options?: AuditOptions): Promise<Audit>;
  /** Stops presenting a payment that the provider will not serve; its amount stays in the budget. */
  giveUp(paymentId: Hex): Promise<void>;
  /**
   * Ends every call that waits, and releases the ledger. A payment whose outcome is unknown by then stays in it: the
   * next agent with this ledger presents the same one. A call that had signed nothing rejects with AbortError.
   */
  close(): Promise<void>;
}

/** @throws ConfigError that names the option */
export function createAgent(options: AgentOptions): Agent {
  return createAgentWith(options, {});
}

/** Creates an agent as part of a larger program of this package. @throws ConfigError that names the option */
export function createAgentWith(options: AgentOptions, environment: AgentEnvironment): Agent {
  const lifetime = new Lifetime();
  checkAgentOptions(options);
  const tracing = options.openTelemetry && new Tracing(options.openTelemetry);
  const context = createContext(options, environment, lifetime, tracing);
  const run = <T>(work: () => Promise<T>) => lifetime.run(work);
  const runUntil = <T>(signal: AbortSignal | undefined, work: () => Promise<T>) =>
    run(() => orNothingSigned(signal, work));
  const abortable = async <T>(input: RequestInput, init: RequestInit | undefined, work: () => Promise<T>) => {
    if (init !== undefined) fieldsOf(init, "init");
    return runUntil(signalOf(input, init), work);
  };
  const traced = <T>(name: string, work: () => Promise<T>) => (tracing ? tracing.run({ name }, work) : work());
  let closed: Promise<void> | undefined;
  const agent: Agent = {
    address: () => context.signer.address(),
    pay: (input, init) => traced("pay", () => abortable(input, init, async () => pay(context, input, init))),
    fetch: (input, init) => traced("fetch", () => abortable(input, init, async () => agentFetch(context, input, init))),
    quote: (input, init) => abortable(input, init, async () => quote(context, input, init)),
    find: (site) => run(async () => findRoutes(context, site)),
    subscribe: (signup) => traced("subscribe", () => run(async () => subscribe(context, signup))),
    recover: (wanted) => run(async () => recover(context, wanted)),
    list: () =>
      run(async () => {
        await watchPayees(context);
        return list(context);
      }),
    addOrigins: (ref, origins) => run(async () => addOrigins(context, ref, origins)),
    pause: (ref) => run(async () => pause(context, ref)),
    resume: (ref, how) => run(async () => resume(context, ref, how)),
    cancel: (ref, how) => run(async () => cancel(context, ref, how)),
    setMaxOverage: (ref, cap) => run(async () => setMaxOverage(context, ref, cap)),
    changePlan: (ref, how) => run(async () => changePlan(context, ref, how)),
    setUntil: (ref, until) => run(async () => setUntil(context, ref, until)),
    void: (ref) => run(async () => voidSignup(context, ref)),
    rekey: (ref) => run(async () => rekey(context, ref)),
    topUp: (how) => run(async () => topUp(context, how)),
    payments: () => run(async () => payments(context)),
    charges: () => run(async () => charges(context)),
    budget: () => run(async () => budget(context)),
    settleHeld: () => run(async () => settleHeld(context)),
    creditRefunds: () => run(async () => creditRefunds(context)),
    audit: (how) => run(async () => audit(context, how)),
    giveUp: (paymentId) => run(async () => giveUp(context, paymentId)),
    close: () => {
      closed ??= closeAll(context, lifetime);
      return closed;
    },
  };
  return registerAgent(agent, { context, run: runUntil });
}

async function closeAll(context: AgentContext, lifetime: Lifetime): Promise<void> {
  await lifetime.close();
  await context.closeLedger();
}
