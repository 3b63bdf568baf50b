/**
 * Judges what the agent may spend before anything is signed, from structured facts alone: no text that a server wrote
 * reaches these rules or the callback. Limits are final; the callback decides only where the policy says to ask.
 */
import {
  type Address,
  knownToken,
  type Network,
  networkOfChain,
  type PaymentMethod,
  PolicyRefused,
  sameAddress,
} from "../../protocol";
import { DAY_SEC } from "../../protocol/periods";
import type { BudgetLimits } from "../ledger/ledger";
import { type AgentPolicy, type AskReason, type PolicyTerms, policyTermsOf, type SpendIntent } from "./policy-options";
import { originOf } from "./request";

export interface SpendFacts extends Omit<SpendIntent, "network" | "reasons"> {
  readonly chainId: number;
}

export type Verdict =
  | { readonly kind: "allow" }
  | { readonly kind: "ask"; readonly reasons: readonly AskReason[] }
  | { readonly kind: "refuse"; readonly error: PolicyRefused };

type PaidWith = Pick<SpendFacts, "chainId" | "token"> & { readonly method: PaymentMethod };

interface KnownPayees {
  hasPaid(payee: Address): boolean;
}

export interface Policy {
  readonly limits: BudgetLimits;
  readonly maxWindowSec: number;
  readonly allowHttp: boolean;
  readonly requireUntil: boolean;
  readonly onPayeeChange: AgentPolicy["onPayeeChange"];
  readonly requireReceipt: boolean;
  /** Returns who signs offers and receipts for the origin of a resource. */
  receiptSigners(resource: string): readonly string[];
  /** Orders by preference: below zero where `a` is preferred, zero where the price decides. */
  compare(a: PaidWith, b: PaidWith): number;
  judge(facts: SpendFacts, known: KnownPayees): Verdict;
  /**
   * @param requireBudget runs before anybody is asked: it throws for a spend that the budget refuses anyway
   * @throws PolicyRefused when the verdict is no, or when it is to ask and the answer is no
   */
  require(facts: SpendFacts, known: KnownPayees, requireBudget: () => void | Promise<void>): Promise<void>;
}

/** @throws ConfigError that names the setting */
export function createPolicy(settings: AgentPolicy, networks: readonly Network[] = []): Policy {
  return new SpendPolicy(policyTermsOf(settings, networks), networks);
}

class SpendPolicy implements Policy {
  readonly limits: BudgetLimits;
  readonly maxWindowSec: number;
  readonly allowHttp: boolean;
  readonly requireUntil: boolean;
  readonly onPayeeChange: AgentPolicy["onPayeeChange"];
  readonly requireReceipt: boolean;
  readonly #terms: PolicyTerms;
  readonly #networks: readonly Network[];

  constructor(terms: PolicyTerms, networks: readonly Network[]) {
    this.limits = { perDay: terms.perDay, perPayee: terms.perPayee };
    this.maxWindowSec = terms.maxWindowSec;
    this.allowHttp = terms.allowHttp;
    this.requireUntil = terms.requireUntil;
    this.onPayeeChange = terms.onPayeeChange;
    this.requireReceipt = terms.requireReceipt;
    this.#terms = terms;
    this.#networks = networks;
  }

  receiptSigners(resource: string): readonly string[] {
    return this.#terms.receiptSigners.get(originOf(resource)) ?? [];
  }

  /** Bound: it is passed to `sort`. */
  readonly compare = (a: PaidWith, b: PaidWith): number => {
    const { chainIds, tokens, methods } = this.#terms.preferred;
    return (
      rank(chainIds, a.chainId) - rank(chainIds, b.chainId) ||
      rank(tokens, a.token.toLowerCase()) - rank(tokens, b.token.toLowerCase()) ||
      rank(methods, a.method) - rank(methods, b.method)
    );
  };

  judge(facts: SpendFacts, known: KnownPayees): Verdict {
    const refusal = this.#refusalOfWay(facts) ?? this.#refusalOfAmount(facts);
    if (refusal) return refusal;
    const { askAbove, askNewPayees } = this.#terms;
    const reasons: AskReason[] = [];
    if (askAbove !== undefined && facts.amount > askAbove) reasons.push("amount");
    if (askNewPayees && !known.hasPaid(facts.payTo)) reasons.push("new_payee");
    return reasons.length > 0 ? { kind: "ask", reasons } : { kind: "allow" };
  }

  async require(facts: SpendFacts, known: KnownPayees, requireBudget: () => void | Promise<void>): Promise<void> {
    const verdict = this.judge(facts, known);
    if (verdict.kind === "refuse") throw verdict.error;
    if (verdict.kind === "allow") return;
    await requireBudget();
    const { chainId, ...shown } = facts;
    const intent = { ...shown, network: networkOfChain(chainId, this.#networks).name, reasons: verdict.reasons };
    if ((await this.#terms.ask?.(intent)) !== true) {
      throw new PolicyRefused("The policy asks first, and the answer was no.", { reason: "not_approved" });
    }
  }

  /** Judges on which network, in which token, to whom and how is paid. */
  #refusalOfWay({ amount, chainId, token, payTo, method, facilitatorAddress }: SpendFacts): Verdict | undefined {
    const { chainIds, tokens, payees, methods, settlers } = this.#terms;
    const network = networkOfChain(chainId, this.#networks);
    if (amount <= 0n) return refuse("amount", "The amount is zero.");
    if (chainIds && !chainIds.includes(chainId)) return refuse("network", `${network.name} is not in policy.networks.`);
    const allowedTokens = tokens ?? (network.token ? [network.token.address] : []);
    if (!allowedTokens.some((allowed) => sameAddress(allowed, token))) {
      return refuse("token", `${token} is not an allowed token on ${network.name}: ${this.#tokenRemedy(network)}`);
    }
    if ((knownToken(network, token)?.decimals ?? 6) !== 6) {
      return refuse("decimals", "The budget is counted in units of 6-decimal tokens.");
    }
    if (payees && !payees.some((payee) => sameAddress(payee, payTo))) {
      return refuse("payee", `${payTo} is not in policy.payees.`);
    }
    if (method !== undefined && !methods.includes(method)) {
      return refuse("method", `The payment method ${method} is not in policy.methods. Name it there to allow it.`);
    }
    if (method === "upto" && settlers && !settlers.some((known) => sameAddress(known, facilitatorAddress ?? "0x"))) {
      return refuse("facilitator_address", `${facilitatorAddress} is not in policy.uptoFacilitators.`);
    }
    return undefined;
  }

  #refusalOfAmount(facts: SpendFacts): Verdict | undefined {
    const { kind, amount, firstAmount = 0n } = facts;
    const { perPayment, perSubscription, perFirstCharge } = this.#terms;
    const limit = kind === "payment" ? perPayment : perSubscription.limit;
    const periods = periodsOfDay(facts);
    if (amount * periods > limit) {
      const what = periods > 1n ? `${amount} for each of ${periods} periods in a day` : `${amount}`;
      const name = kind === "payment" ? "policy.perPayment" : perSubscription.name;
      const details = { amount: `${amount}`, limit: `${limit}`, ...(periods > 1n && { periods: Number(periods) }) };
      return refuse("limit", `${what} is above ${name}, which is ${limit}.`, details);
    }
    if (perFirstCharge !== undefined && firstAmount > perFirstCharge) {
      const message = `${firstAmount} is above policy.perFirstCharge, which is ${perFirstCharge}.`;
      return refuse("first_charge", message, { amount: `${firstAmount}`, limit: `${perFirstCharge}` });
    }
    return undefined;
  }

  #tokenRemedy({ name, token }: Network): string {
    const { tokens } = this.#terms;
    if (tokens)
      return `policy.tokens lists ${tokens.length === 0 ? "none" : tokens.join(", ")}. Add it there to allow it.`;
    const known = token ? `the default there is ${token.address}` : `${name} has no default token`;
    return `policy.tokens is not set, and ${known}. Name it in policy.tokens to allow it.`;
  }
}

/** Returns a value's place in a list; what is not in it comes last. */
function rank<T>(list: readonly T[], value: T): number {
  const at = list.indexOf(value);
  return at < 0 ? list.length : at;
}

/** How many periods can begin in one day: what a short period costs adds up, without another signature. */
const periodsOfDay = ({ periodSec = DAY_SEC }: SpendFacts): bigint =>
  periodSec >= DAY_SEC ? 1n : BigInt(Math.ceil(DAY_SEC / periodSec));

const refuse = (reason: string, message: string, details: PolicyRefused["details"] = {}): Verdict => ({
  kind: "refuse",
  error: new PolicyRefused(message, { reason, details }),
});
