/**
 * Implements `agent.quote`: what a URL costs by every offered way, and which is cheapest for how much use. It signs
 * nothing, reserves nothing, and sends no credential. Amounts are base units; shares of them are exact fractions.
 */
import { type Address, type Hex, InvalidRequest, type PaymentMethod, toAmount } from "../../protocol";
import type { AgentContext } from "../core/context";
import type { SpendFacts } from "../core/policy";
import type { Amount } from "../core/policy-options";
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
import { quoteOf } from "../payments/pay";
import type { PaymentOption } from "../payments/quote";
import { offeredPlansOf, type PlanPrice } from "../subscriptions/offers";
import {
  breakEvenOf,
  type CostLine,
  ceil,
  cheapestAt,
  cheapestRanges,
  costAt,
  type Fraction,
  fraction,
  nextWhole,
  times,
} from "./advice";

const MONTH_SEC = 30 * 24 * 60 * 60;

/** How much a URL will be used. */
export interface ExpectedUse {
  /** how often the URL will be called in one period; a whole number */
  readonly callsPerPeriod: bigint | number;
  /** length of that period, seconds. Default: the interval of the offered plans where they share one, else 30 days */
  readonly periodSec?: number;
  /**
   * what one call debits on a metered plan, base units. Only the provider knows: without it metered plans are listed,
   * not compared
   */
  readonly costPerCall?: Amount;
}

/** As `fetch` takes it, and the use to count with. */
export interface QuoteInit extends RequestInit {
  /** Default: how often this agent's ledger has paid for the URL (whatever its query) in the last period. */
  readonly expected?: ExpectedUse;
}

interface PriceBase {
  readonly network: string;
  readonly chainId: number | undefined;
  readonly token: Address;
  /** what is due at once: the price of a call, or of a plan's first period; base units */
  readonly amount: bigint;
  /** base units per call at the use that is counted with; undefined when that is unknown or zero */
  readonly perCall: Fraction | undefined;
  /** base units in one `periodSec` at that use; undefined when it is unknown */
  readonly perPeriod: Fraction | undefined;
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
  /**
   * calls per period at which it costs as much as the cheapest one-time option, exactly; undefined when it never does
   */
  readonly breakEven: Fraction | undefined;
  /** the smallest whole number of calls per period at which it is cheaper than that */
  readonly cheaperFromCalls: bigint | undefined;
}

/** One price for every interval, however many requests. */
export interface SubscriptionPrice extends PlanPriceBase {
  readonly kind: "subscription";
}

/** One price for every interval, and overage for every call, up to a cap. */
export interface MeteredPrice extends PlanPriceBase {
  readonly kind: "metered";
  /**
   * the `maxOverage` to subscribe with, so that the cap covers the use of one interval; undefined without `costPerCall`
   */
  readonly maxOverage: bigint | undefined;
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
  /** seconds that "period" means in this quote */
  readonly periodSec: number;
  readonly use: {
    readonly source: "expected" | "observed" | "unknown";
    readonly callsPerPeriod: bigint | undefined;
    /** base units */
    readonly costPerCall: bigint | undefined;
  };
  /** one-time options first, then plans, each cheapest first */
  readonly options: readonly PriceOption[];
  /** at the use that is counted with, among those that are not refused; on a tie the one with the smaller commitment */
  readonly cheapest: PriceOption | undefined;
  /** the same for every number of calls per period: from `fromCalls` on, until the next */
  readonly ranges: readonly { readonly fromCalls: bigint; readonly option: PriceOption }[];
  /** why other entries of the 402 were left out */
  readonly refusals: readonly string[];
}

/**
 * Returns what `input` costs. Tokens count at par: all of them are stablecoins with 6 decimals. The cost of a plan is
 * its price x period / interval, as steady use has it: a plan is charged for whole intervals.
 * @throws InvalidRequest for a request that bears a credential, or use that is no whole number
 */
export async function quote(context: AgentContext, input: RequestInput, init: QuoteInit = {}): Promise<PriceQuote> {
  const { expected, ...requestInit } = init;
  const wanted = expected && readExpected(expected);
  const template = await templateOf(input, requestInit);
  if (bearsCredential(template)) throw new InvalidRequest("A quote is asked for without a payment or subscription.");
  const arrival = await sendWithinOrigin(context.effects, template, {});
  const ledger = await context.ledger();
  const { status } = arrival.response;
  const asked = status === 402 ? await quoteOf(context, arrival) : undefined;
  if (status !== 402) await arrival.response.body?.cancel();
  const { url, method } = arrival.template;
  const plans = asked ? await offeredPlansOf(context, asked) : [];
  const periodSec = wanted?.periodSec ?? sharedInterval(plans) ?? MONTH_SEC;
  const use = wanted
    ? { source: "expected" as const, callsPerPeriod: wanted.callsPerPeriod, costPerCall: wanted.costPerCall }
    : observedUse(context, { ledger, url, method, periodSec });

  const priced = priceAll({ context, ledger, oneTime: asked?.options ?? [], plans, periodSec, use, url });
  const comparable = priced.filter(({ option, line }) => line !== undefined && option.verdict !== "refuse");
  const lines = comparable.map(({ line }) => line as CostLine);
  const at = (index: number) => comparable[index]?.option as PriceOption;
  const best = use.callsPerPeriod === undefined ? undefined : cheapestAt(lines, use.callsPerPeriod);
  return {
    url,
    method,
    status,
    periodSec,
    use,
    options: priced.map(({ option }) => option),
    cheapest: best === undefined ? undefined : at(best),
    ranges: cheapestRanges(lines).map(({ fromCalls, index }) => ({ fromCalls, option: at(index) })),
    refusals: asked?.refusals ?? [],
  };
}

interface Priced {
  readonly option: PriceOption;
  /** undefined when its cost per call is not known */
  readonly line: CostLine | undefined;
}

interface ToPrice {
  readonly context: AgentContext;
  readonly ledger: AgentLedger;
  readonly oneTime: readonly PaymentOption[];
  readonly plans: readonly PlanPrice[];
  readonly periodSec: number;
  readonly use: PriceQuote["use"];
  readonly url: string;
}

function priceAll(job: ToPrice): Priced[] {
  const { context, oneTime, plans, periodSec, use, url } = job;
  const single = oneTime.map((option): Priced => {
    const line = { base: fraction(0n), perCall: fraction(option.amount) };
    const { network, chainId, token, amount, payTo, dialect, method } = option;
    const verdict = verdictOf(job, spendFactsOf(option, originAndPath(url)), refusalOf(context, option, url));
    const perCall = fraction(amount);
    const price = { ...costs(line, use), perCall, ...verdict };
    return { line, option: { kind: "one-time", network, chainId, token, amount, payTo, dialect, method, ...price } };
  });
  const cheapestSingle = single.find(({ option }) => option.verdict !== "refuse")?.line;
  const byPlan = plans.map((plan): Priced => {
    const line = lineOf(plan, periodSec, use.costPerCall);
    const maxOverage = plan.metered ? overageOf(plan, periodSec, use) : undefined;
    const { planId, name, network, chainId, token, amount, intervalSec, verified, subscribed, payTo } = plan;
    const facts =
      chainId !== undefined && payTo !== undefined
        ? {
            kind: "subscription" as const,
            amount: amount + (maxOverage ?? 0n),
            periodSec: intervalSec,
            chainId,
            token,
            payTo,
          }
        : undefined;
    const even = line && cheapestSingle && breakEvenOf(cheapestSingle, line);
    const base = {
      planId,
      name,
      network,
      chainId,
      token,
      amount,
      intervalSec,
      verified,
      subscribed,
      ...costs(line, use),
      ...verdictOf(job, facts, plan.reason ?? (isSafe(context, url) ? undefined : "insecure_origin")),
      breakEven: even,
      cheaperFromCalls: even && nextWhole(even),
    };
    return {
      line,
      option: plan.metered ? { kind: "metered", ...base, maxOverage } : { kind: "subscription", ...base },
    };
  });
  return [...single, ...byPlan];
}

function costs(line: CostLine | undefined, { callsPerPeriod }: PriceQuote["use"]) {
  const perPeriod = line && callsPerPeriod !== undefined ? costAt(line, callsPerPeriod) : undefined;
  const perCall = perPeriod && callsPerPeriod ? times(perPeriod, 1n, callsPerPeriod) : undefined;
  return { perPeriod, perCall };
}

function lineOf(plan: PlanPrice, periodSec: number, costPerCall: bigint | undefined): CostLine | undefined {
  if (plan.metered && costPerCall === undefined) return undefined;
  const perCall = fraction(plan.metered ? (costPerCall ?? 0n) : 0n);
  return { base: fraction(plan.amount * BigInt(periodSec), BigInt(plan.intervalSec)), perCall };
}

/** The cap that covers the calls of one interval, rounded up to whole calls. */
function overageOf(plan: PlanPrice, periodSec: number, use: PriceQuote["use"]): bigint | undefined {
  const { callsPerPeriod, costPerCall } = use;
  if (callsPerPeriod === undefined || costPerCall === undefined) return undefined;
  return ceil(fraction(callsPerPeriod * BigInt(plan.intervalSec), BigInt(periodSec))) * costPerCall;
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

/** The plans' own interval, where they have one in common. */
function sharedInterval(plans: readonly PlanPrice[]): number | undefined {
  const [first, ...others] = new Set(plans.map(({ intervalSec }) => intervalSec));
  return others.length === 0 ? first : undefined;
}

function observedUse(
  context: AgentContext,
  { ledger, url, method, periodSec }: Pick<ToPrice, "ledger" | "url" | "periodSec"> & { readonly method: string },
): PriceQuote["use"] {
  const sinceSec = context.effects.clock.nowSec() - periodSec;
  const calls = observedCalls(ledger, { url, method, sinceSec });
  return calls === 0n
    ? { source: "unknown", callsPerPeriod: undefined, costPerCall: undefined }
    : { source: "observed", callsPerPeriod: calls, costPerCall: undefined };
}

function readExpected({ callsPerPeriod, periodSec, costPerCall }: ExpectedUse) {
  const isWhole = typeof callsPerPeriod === "bigint" || Number.isSafeInteger(callsPerPeriod);
  if (!isWhole || callsPerPeriod < 0) {
    throw new InvalidRequest("expected.callsPerPeriod must be a whole number, as a bigint or a safe integer.");
  }
  if (periodSec !== undefined && !(Number.isSafeInteger(periodSec) && periodSec > 0)) {
    throw new InvalidRequest("expected.periodSec must be a whole number of seconds above zero.");
  }
  return {
    callsPerPeriod: BigInt(callsPerPeriod),
    periodSec,
    costPerCall: costPerCall === undefined ? undefined : toAmount(costPerCall, "expected.costPerCall"),
  };
}

/** Counts this agent's payments for a URL, from its ledger. Calls that a subscription served leave no record. */
export function observedCalls(
  ledger: AgentLedger,
  { url, method, sinceSec }: { readonly url: string; readonly method: string; readonly sinceSec: number },
): bigint {
  const wanted = originAndPath(url);
  const paid = ledger
    .payments()
    .filter((entry) => entry.state !== "released" && entry.state !== "reserved" && entry.atSec > sinceSec)
    .filter((entry) => entry.method === method && originAndPath(entry.resource) === wanted);
  return BigInt(paid.length);
}
