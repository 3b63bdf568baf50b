/**
 * Implements `agent.quote`: what a URL costs by every offered way. It signs nothing, reserves nothing, and sends no
 * credential. Amounts are base units.
 */
import { type Address, type Hex, InvalidRequest, type PaymentMethod } from "../../protocol";
import type { AgentContext } from "../core/context";
import type { SpendFacts } from "../core/policy";
import {
  bearsCredential,
  isPrivateChannel,
  originAndPath,
  type RequestInput,
  sendWithinOrigin,
  templateOf,
} from "../core/request";
import type { AgentLedger } from "../ledger/ledger";
import { spendFactsOf } from "../payments/choose";
import { quoteOf } from "../payments/dialects";
import type { PaymentOption } from "../payments/quote";
import { offeredPlansOf, type PlanPrice } from "../subscriptions/offers";

interface PriceBase {
  readonly network: string;
  readonly chainId: number | undefined;
  readonly token: Address;
  /** what is due at once: the price of a call, or of a plan's first period; base units */
  readonly amount: bigint;
  /** whether the agent may choose it: "ask" when the policy would ask first */
  readonly verdict: "allow" | "ask" | "refuse";
  /** why not, e.g. "limit", "token", "facilitator", "deprecated", "plan_terms" */
  readonly reason: string | undefined;
}

/** One transfer for each request. */
export interface OneTimePrice extends PriceBase {
  readonly kind: "one-time";
  readonly payTo: Address;
  readonly dialect: PaymentOption["dialect"];
  /** with `upto`, the price is the most that a call may cost */
  readonly method: PaymentMethod;
}

interface PlanPriceBase extends PriceBase {
  readonly planId: Hex;
  readonly name: string | undefined;
  readonly intervalSec: number;
  /** whether the terms were proven by the plan's id, rather than stated by the 402 alone */
  readonly verified: boolean;
  /** whether the ledger holds a live subscription on it */
  readonly subscribed: boolean;
}

/** One price for every interval, however many requests. */
export interface SubscriptionPrice extends PlanPriceBase {
  readonly kind: "subscription";
}

/** One price for every interval, and overage for every call, up to a cap. */
export interface MeteredPrice extends PlanPriceBase {
  readonly kind: "metered";
}

/** One offered way to pay. */
export type PriceOption = OneTimePrice | SubscriptionPrice | MeteredPrice;

/** What a URL costs, every offered way; amounts in base units, exact. */
export interface PriceQuote {
  /** what was asked; after redirects within the origin, where they led */
  readonly url: string;
  readonly method: string;
  /** of the answer; other than 402: nothing is to be paid, and nothing is listed */
  readonly status: number;
  /** one-time options first, then plans, each cheapest first */
  readonly options: readonly PriceOption[];
  /** why other entries of the 402 were left out */
  readonly refusals: readonly string[];
}

/**
 * Returns what `input` costs.
 * @throws InvalidRequest for a request that bears a credential
 */
export async function quote(context: AgentContext, input: RequestInput, init: RequestInit = {}): Promise<PriceQuote> {
  const template = await templateOf(input, init);
  if (bearsCredential(template)) throw new InvalidRequest("A quote is asked for without a payment or subscription.");
  const arrival = await sendWithinOrigin(context.effects, template, {});
  const ledger = await context.ledger();
  const { status } = arrival.response;
  const asked = status === 402 ? await quoteOf(context, arrival) : undefined;
  if (status !== 402) await arrival.response.body?.cancel();
  const { url, method } = arrival.template;
  const plans = asked ? await offeredPlansOf(context, asked) : [];
  const job = { context, ledger, url };
  const options = [
    ...(asked?.options ?? []).map((option) => oneTimePriceOf(job, option)),
    ...plans.map((plan) => planPriceOf(job, plan)),
  ];
  return { url, method, status, options, refusals: asked?.refusals ?? [] };
}

interface ToPrice {
  readonly context: AgentContext;
  readonly ledger: AgentLedger;
  readonly url: string;
}

function oneTimePriceOf(job: ToPrice, option: PaymentOption): OneTimePrice {
  const { context, url } = job;
  const { network, chainId, token, amount, payTo, dialect, method } = option;
  const verdict = verdictOf(job, spendFactsOf(option, originAndPath(url)), refusalOf(context, option, url));
  return { kind: "one-time", network, chainId, token, amount, payTo, dialect, method, ...verdict };
}

function planPriceOf(job: ToPrice, plan: PlanPrice): SubscriptionPrice | MeteredPrice {
  const { planId, name, network, chainId, token, amount, intervalSec, verified, subscribed, payTo } = plan;
  const facts =
    chainId === undefined || payTo === undefined
      ? undefined
      : { kind: "subscription" as const, amount, periodSec: intervalSec, chainId, token, payTo };
  const reason = plan.reason ?? (isSafe(job.context, job.url) ? undefined : "insecure_origin");
  const kind = plan.metered ? "metered" : "subscription";
  const shown = { planId, name, network, chainId, token, amount, intervalSec, verified, subscribed };
  return { kind, ...shown, ...verdictOf(job, facts, reason) };
}

function verdictOf({ context, ledger }: ToPrice, facts: SpendFacts | undefined, reason: string | undefined) {
  if (reason !== undefined || !facts) return { verdict: "refuse" as const, reason: reason ?? "network" };
  const judged = context.policy.judge(facts, ledger);
  return { verdict: judged.kind, reason: judged.kind === "refuse" ? judged.error.reason : undefined };
}

function refusalOf(context: AgentContext, option: PaymentOption, url: string): string | undefined {
  if (!isSafe(context, url)) return "insecure_origin";
  return option.dialect === "turnpike" && !context.facilitators.find(option.facilitator) ? "facilitator" : undefined;
}

const isSafe = (context: AgentContext, url: string): boolean => context.policy.allowHttp || isPrivateChannel(url);
