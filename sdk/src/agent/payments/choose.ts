/**
 * Chooses what to pay among the options of a quote that the policy, the call and the Facilitators allow: what the policy
 * prefers, then the cheapest.
 */
import { type Address, isTurnpikeError, PolicyRefused } from "../../protocol";
import type { AgentContext } from "../core/context";
import type { Facilitator } from "../core/facilitators";
import type { SpendFacts, Verdict } from "../core/policy";
import { originAndPath } from "../core/request";
import type { PayJob } from "./channel";
import { withinBudget } from "./charge";
import { methodOf } from "./methods";
import type { NativeOption, ParsedQuote, PaymentOption, StandardOption } from "./quote";
import { gapOf, offerFor } from "./signed-statements";

export type ChosenOption =
  | { readonly kind: "native"; readonly option: NativeOption; readonly facilitator: Facilitator }
  | { readonly kind: "standard"; readonly option: StandardOption };

/** @throws PolicyRefused with the reason of the first option that was refused */
export async function chooseOption(
  context: AgentContext,
  job: PayJob<unknown>,
  quote: ParsedQuote,
): Promise<ChosenOption> {
  const { policy } = context;
  const hasPaid = (payee: Address) => job.ledger.hasPaid(payee);
  const allowed: ChosenOption[] = [];
  const toAsk: { chosen: ChosenOption; facts: SpendFacts }[] = [];
  let refused: PolicyRefused | undefined;
  for (const option of [...quote.options].sort(policy.compare)) {
    const facts = spendFactsOf(option, job.target.place);
    const found = admit(context, job, option, quote);
    const verdict: Verdict =
      "error" in found ? { kind: "refuse", error: found.error } : policy.judge(facts, { hasPaid });
    if (verdict.kind === "refuse") refused ??= verdict.error;
    else if (!("error" in found)) {
      if (verdict.kind === "allow") allowed.push(found);
      else toAsk.push({ chosen: found, facts });
    }
  }
  const [best] = allowed;
  // The same key has to choose the same option again, whatever the balances are by then.
  if (best) return job.key === undefined && allowed.length > 1 ? firstFunded(context, allowed, best) : best;
  const [first] = toAsk;
  if (first) {
    const { amount, payTo } = first.facts;
    const wanted = { amount: amount.toString(), payTo, atSec: context.effects.clock.nowSec() };
    await policy.require(first.facts, { hasPaid }, () =>
      withinBudget(context, job.ledger, () => job.ledger.requireBudget(wanted, policy.limits)),
    );
    return first.chosen;
  }
  if (refused) throw refused;
  const offersPlans = quote.offers.length > 0 || quote.plans.length > 0;
  if (quote.options.length === 0 && offersPlans && quote.refusals.length === 0) {
    throw new PolicyRefused(
      "Only subscriptions are offered here: agent.quote(url) lists them, and agent.subscribe({ url }) signs up.",
      { reason: "subscription_only" },
    );
  }
  const reason = quote.refusals[0] ?? "no_option";
  const why = quote.refusals.join(", ") || "none is offered";
  const hint = reason === "resource" ? hintAt(job.target.place, quote.elsewhere) : "";
  throw new PolicyRefused(`No offered option can be paid (${why}).${hint}`, { reason });
}

/** A proxy that strips a prefix is the usual cause, and nothing else shows it. */
function hintAt(place: string, elsewhere: string | undefined): string {
  if (elsewhere === undefined) return ` ${place} was requested, and the 402 names no URL that it sells.`;
  if (elsewhere === place) return ` The provider sells ${place} with another query.`;
  return ` ${place} was requested, and the provider sells ${elsewhere}: its publicUrl (TURNPIKE_PUBLIC_URL) must be its address as clients write it, with the path that a proxy before it strips.`;
}

/** Checks an option against the call and the configuration, before the policy. */
function admit(
  context: AgentContext,
  job: PayJob<unknown>,
  option: PaymentOption,
  { signedOffers }: ParsedQuote,
): ChosenOption | { error: PolicyRefused } {
  if (job.maxAmount !== undefined && option.amount > job.maxAmount) {
    const message = `The price is ${option.amount}, above this call's maxAmount of ${job.maxAmount}.`;
    return no("max_amount", message, { amount: `${option.amount}`, limit: `${job.maxAmount}` });
  }
  const quoted = firstQuoteOf(job, option);
  if (quoted !== undefined && option.amount > quoted) {
    const message = `The price is ${option.amount}, above the ${quoted} that was quoted first.`;
    return no("price_raised", message, { amount: `${option.amount}`, limit: `${quoted}` });
  }
  if (context.policy.requireReceipt) {
    const gap = gapOf(offerFor(context, signedOffers, { option, target: job.target }));
    if (gap) return no("receipt", `policy.requireReceipt is set, and the provider's signed offer ${gap}.`);
  }
  if (option.dialect !== "turnpike") return { kind: "standard", option };
  const facilitator = context.facilitators.find(option.facilitator);
  if (!facilitator) {
    const named =
      option.facilitator !== undefined && URL.canParse(option.facilitator)
        ? originAndPath(option.facilitator)
        : "a Facilitator without a URL";
    return no(
      "facilitator",
      `The provider settles through ${named}, which is not in the agent's \`facilitators\`. Add it there if you trust it.`,
    );
  }
  return { kind: "native", option, facilitator };
}

/** Returns the price at which this purchase, by its key, was first attempted. */
function firstQuoteOf({ ledger, key, target }: PayJob<unknown>, option: PaymentOption): bigint | undefined {
  if (key === undefined) return undefined;
  const earlier = ledger
    .payments()
    .find((entry) => entry.key === key && entry.resource === target.resource && entry.chainId === option.chainId);
  return earlier && BigInt(earlier.amount);
}

const no = (reason: string, message: string, details: PolicyRefused["details"] = {}) => ({
  error: new PolicyRefused(message, { reason, details }),
});

/** Returns the facts by which the policy judges an option. @param resource the part of it that may be shown */
export function spendFactsOf(option: PaymentOption, resource: string): SpendFacts {
  const { amount, chainId, token, payTo, method, facilitatorAddress } = option;
  const settler = facilitatorAddress && { facilitatorAddress };
  return { kind: "payment", amount, chainId, token, payTo, resource, method, ...settler };
}

/** Returns the first option that the wallet has the funds and the approval for, as far as the agent's own RPC shows. */
async function firstFunded(
  context: AgentContext,
  allowed: readonly ChosenOption[],
  best: ChosenOption,
): Promise<ChosenOption> {
  const payer = await context.signer.address();
  for (const chosen of allowed) {
    const { chainId, token, amount } = chosen.option;
    const chain = context.chainOf(chainId);
    try {
      const isFunded = !chain || (await chain.balance(token, payer)) >= amount;
      const { approval } = methodOf(chosen.option);
      if (isFunded && (!approval || (await approval.isThere(context, chosen.option, payer)))) return chosen;
    } catch (error) {
      if (!isTurnpikeError(error)) throw error;
      // An unknown balance is no reason to pay with something else.
      return chosen;
    }
  }
  return best;
}
