/**
 * Judges what the agent may spend before anything is signed, from structured facts alone: no text that a server wrote
 * reaches these rules or the callback. Limits are final; the callback decides only where the policy says to ask.
 */
import * as z from "zod";
import {
  type Address,
  ConfigError,
  configuredAddress,
  findNetwork,
  type Network,
  networkOfChain,
  PAYMENT_METHODS,
  type PaymentMethod,
  PolicyRefused,
  sameAddress,
  toAmount,
} from "../../protocol";
import { DAY_SEC } from "../../protocol/time";
import type { BudgetLimits } from "../ledger/ledger";
import { requireKnownFields } from "./known-fields";
import { policyFields } from "./policy-fields";
import { originOf } from "./request";

/** Base units of a token with 6 decimals. */
export type Amount = bigint | number | string;

/** What an agent may spend; amounts in base units. There is no agent without limits. */
export interface AgentPolicy {
  /** the most that one payment may cost */
  readonly perPayment: Amount;
  /** the most that may be spent in any 24 hours, over all hosts, tokens and calls together */
  readonly perDay: Amount;
  /** the most that one payee may receive in any 24 hours */
  readonly perPayee?: Amount;
  /**
   * the most that a subscription may cost per period, its overage cap included; of periods shorter than a day, all that
   * begin in a day count. It holds for signups, plan changes (at once or scheduled), raises of the cap and paid
   * resumptions. Default: `perDay`
   */
  readonly perSubscription?: Amount;
  /**
   * the most that a signup, a plan change or a resumption may charge at once; a voucher's period that ends within a day
   * counts the price after it, too. Default: no limit but `perSubscription` and `perDay`
   */
  readonly perFirstCharge?: Amount;
  /** sign up only with an end that the agent sets (`until`), after which nothing is charged, and keep one; default false */
  readonly requireUntil?: boolean;
  /**
   * what to do when another payee is proposed for the plan of a subscription, or has replaced the present one: `notify`
   * emits `subscription.payee_change`; `cancel` also ends the subscription before the other payee can get anything.
   * Default: payees are not watched
   */
  readonly onPayeeChange?: "cancel" | "notify";
  /** names, as in a 402; when given, no other network is paid on */
  readonly networks?: readonly string[];
  /** when given, no other token is paid with; otherwise the well-known token of each network */
  readonly tokens?: readonly string[];
  /**
   * how the agent may pay. `upto` lets the provider charge any amount up to the quoted one, so it has to be named.
   * Default: `eip3009` and `permit2`
   */
  readonly methods?: readonly PaymentMethod[];
  /** when given, only these accounts may settle an `upto` payment; otherwise any that a provider names */
  readonly uptoFacilitators?: readonly string[];
  /** what to pay with first where several are offered; the price decides among equals */
  readonly prefer?: Preference;
  /** when given, only these are paid */
  readonly payees?: readonly string[];
  /** ask before paying more than this at once */
  readonly askAbove?: Amount;
  /** ask before paying a payee for the first time */
  readonly askNewPayees?: boolean;
  /** Returns whether to go on, where the policy says to ask. Without it the answer is no. */
  readonly ask?: (intent: SpendIntent) => boolean | Promise<boolean>;
  /**
   * pay only where the provider signs its offer, and report an answer without a signed receipt of the payment as
   * ReceiptRejected. The signer must be the payee, or in `receiptSigners`; default false
   */
  readonly requireReceipt?: boolean;
  /**
   * by origin, "https://api.example" or "stdio:my-tools": the addresses, and DIDs of keys (`did:key`, `did:jwk`), that
   * sign for it
   */
  readonly receiptSigners?: Readonly<Record<string, readonly string[]>>;
  /** the longest time an authorization may stay usable, seconds; default 600 */
  readonly maxWindowSec?: number;
  /** also pay and subscribe over plain http to other machines; default false */
  readonly allowHttp?: boolean;
}

/** The most preferred first, networks before tokens before methods; what is not named comes last. */
export interface Preference {
  /** names, as in a 402 */
  readonly networks?: readonly string[];
  readonly tokens?: readonly string[];
  /** default: `eip3009` */
  readonly methods?: readonly PaymentMethod[];
}

/** What the agent is about to sign, in facts alone: no text that a server wrote. */
export interface SpendIntent {
  readonly kind: "payment" | "subscription";
  /** of a payment; of one period of a subscription, its overage cap included */
  readonly amount: bigint;
  /** of a subscription: what is charged at once, where that is known */
  readonly firstAmount?: bigint;
  /** of a subscription: length of a period, seconds; 30 days for a month */
  readonly periodSec?: number;
  readonly network: string;
  readonly token: Address;
  readonly payTo: Address;
  /** origin and path of what is bought, or server and tool; absent for subscriptions */
  readonly resource?: string;
  /** of a payment; with `upto`, `amount` is the most that may be charged */
  readonly method?: PaymentMethod;
  /** of an `upto` payment: the account that may settle it */
  readonly facilitatorAddress?: Address;
  readonly reasons: readonly AskReason[];
}

/** Why the policy asks. */
export type AskReason = "amount" | "new_payee";

export interface SpendFacts extends Omit<SpendIntent, "network" | "reasons"> {
  readonly chainId: number;
}

export type Verdict =
  | { readonly kind: "allow" }
  | { readonly kind: "ask"; readonly reasons: readonly AskReason[] }
  | { readonly kind: "refuse"; readonly error: PolicyRefused };

type PaidWith = Pick<SpendFacts, "chainId" | "token"> & { readonly method: PaymentMethod };

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
  judge(facts: SpendFacts, known: { hasPaid(payee: Address): boolean }): Verdict;
  /**
   * @param requireBudget runs before anybody is asked: it throws for a spend that the budget refuses anyway
   * @throws PolicyRefused when the verdict is no, or when it is to ask and the answer is no
   */
  require(
    facts: SpendFacts,
    known: { hasPaid(payee: Address): boolean },
    requireBudget: () => void | Promise<void>,
  ): Promise<void>;
}

export const DEFAULT_MAX_WINDOW_SEC = 600;

const DEFAULT_METHODS: readonly PaymentMethod[] = ["eip3009", "permit2"];

/** @throws ConfigError that names the setting */
export function createPolicy(settings: AgentPolicy, networks: readonly Network[] = []): Policy {
  if (settings?.perPayment === undefined || settings.perDay === undefined) {
    throw new ConfigError("policy.perPayment and policy.perDay are required: an agent without limits does not pay");
  }
  requireFields(settings);
  const perPayment = toAmount(settings.perPayment, "policy.perPayment");
  const perDay = toAmount(settings.perDay, "policy.perDay");
  const optional = (value: Amount | undefined, name: string) =>
    value === undefined ? undefined : toAmount(value, name);
  const perPayee = optional(settings.perPayee, "policy.perPayee");
  const perSubscription = optional(settings.perSubscription, "policy.perSubscription") ?? perDay;
  const perFirstCharge = optional(settings.perFirstCharge, "policy.perFirstCharge");
  const askAbove = optional(settings.askAbove, "policy.askAbove");
  const maxWindowSec = settings.maxWindowSec ?? DEFAULT_MAX_WINDOW_SEC;
  if (!Number.isSafeInteger(maxWindowSec) || maxWindowSec < 30) {
    throw new ConfigError("policy.maxWindowSec must be a whole number of seconds, at least 30");
  }
  const { onPayeeChange } = settings;
  if (onPayeeChange !== undefined && onPayeeChange !== "cancel" && onPayeeChange !== "notify") {
    throw new ConfigError('policy.onPayeeChange must be "cancel" or "notify"');
  }
  for (const { name, token } of networks) if (token) requireAddress(token.address, `networks: token of ${name}`);
  const chainIdsOf = (names: readonly string[], field: string) =>
    names.map((name) => {
      const network = findNetwork(name, networks);
      if (!network) throw new ConfigError(`${field} holds "${name}", which is no known network`);
      return network.chainId;
    });
  const chainIds = settings.networks && chainIdsOf(settings.networks, "policy.networks");
  const preferred = {
    chainIds: chainIdsOf(settings.prefer?.networks ?? [], "policy.prefer.networks"),
    tokens: (settings.prefer?.tokens ?? []).map((token) => requireAddress(token, "policy.prefer.tokens").toLowerCase()),
    methods: requireMethods(settings.prefer?.methods ?? ["eip3009"], "policy.prefer.methods"),
  };
  const methods = requireMethods(settings.methods ?? DEFAULT_METHODS, "policy.methods");
  const settlers = settings.uptoFacilitators?.map((account) => requireAddress(account, "policy.uptoFacilitators"));
  const tokens = settings.tokens?.map((token) => requireAddress(token, "policy.tokens"));
  const receiptSigners = receiptSignersOf(settings.receiptSigners ?? {});
  const payees = settings.payees?.map((payee) => requireAddress(payee, "policy.payees"));

  function nameOfLimit(kind: SpendIntent["kind"]): string {
    if (kind === "payment") return "policy.perPayment";
    return settings.perSubscription === undefined
      ? "policy.perDay (it limits a plan's price while policy.perSubscription is not set)"
      : "policy.perSubscription";
  }

  function tokenRemedy({ name, token }: Network): string {
    if (tokens)
      return `policy.tokens lists ${tokens.length === 0 ? "none" : tokens.join(", ")}. Add it there to allow it.`;
    const known = token ? `the default there is ${token.address}` : `${name} has no default token`;
    return `policy.tokens is not set, and ${known}. Name it in policy.tokens to allow it.`;
  }

  function judge(facts: SpendFacts, known: { hasPaid(payee: Address): boolean }): Verdict {
    const { amount, firstAmount = 0n, chainId, token, payTo } = facts;
    const network = networkOfChain(chainId, networks);
    if (amount <= 0n) return refuse("amount", "The amount is zero.");
    if (chainIds && !chainIds.includes(chainId)) return refuse("network", `${network.name} is not in policy.networks.`);
    const allowedTokens = tokens ?? (network.token ? [network.token.address] : []);
    if (!allowedTokens.some((allowed) => sameAddress(allowed, token))) {
      return refuse("token", `${token} is not an allowed token on ${network.name}: ${tokenRemedy(network)}`);
    }
    if (network.token && sameAddress(network.token.address, token) && network.token.decimals !== 6) {
      return refuse("decimals", "The budget is counted in units of 6-decimal tokens.");
    }
    if (payees && !payees.some((payee) => sameAddress(payee, payTo))) {
      return refuse("payee", `${payTo} is not in policy.payees.`);
    }
    const { method, facilitatorAddress } = facts;
    if (method !== undefined && !methods.includes(method)) {
      return refuse("method", `The payment method ${method} is not in policy.methods. Name it there to allow it.`);
    }
    if (method === "upto" && settlers && !settlers.some((known) => sameAddress(known, facilitatorAddress ?? "0x"))) {
      return refuse("facilitator_address", `${facilitatorAddress} is not in policy.uptoFacilitators.`);
    }
    const limit = facts.kind === "payment" ? perPayment : perSubscription;
    const periods = periodsOfDay(facts);
    if (amount * periods > limit) {
      const what = periods > 1n ? `${amount} for each of ${periods} periods in a day` : `${amount}`;
      return refuse("limit", `${what} is above ${nameOfLimit(facts.kind)}, which is ${limit}.`);
    }
    if (perFirstCharge !== undefined && firstAmount > perFirstCharge) {
      return refuse("first_charge", `${firstAmount} is above policy.perFirstCharge, which is ${perFirstCharge}.`);
    }
    const reasons: AskReason[] = [];
    if (askAbove !== undefined && amount > askAbove) reasons.push("amount");
    if (settings.askNewPayees && !known.hasPaid(payTo)) reasons.push("new_payee");
    return reasons.length > 0 ? { kind: "ask", reasons } : { kind: "allow" };
  }

  return {
    compare: (a, b) =>
      rank(preferred.chainIds, a.chainId) - rank(preferred.chainIds, b.chainId) ||
      rank(preferred.tokens, a.token.toLowerCase()) - rank(preferred.tokens, b.token.toLowerCase()) ||
      rank(preferred.methods, a.method) - rank(preferred.methods, b.method),
    limits: { perDay, perPayee },
    maxWindowSec,
    allowHttp: settings.allowHttp ?? false,
    requireUntil: settings.requireUntil ?? false,
    onPayeeChange,
    requireReceipt: settings.requireReceipt ?? false,
    receiptSigners: (resource) => receiptSigners.get(originOf(resource)) ?? [],
    judge,
    async require(facts, known, requireBudget) {
      const verdict = judge(facts, known);
      if (verdict.kind === "refuse") throw verdict.error;
      if (verdict.kind === "allow") return;
      await requireBudget();
      const { chainId, ...shown } = facts;
      const intent = { ...shown, network: networkOfChain(chainId, networks).name, reasons: verdict.reasons };
      if ((await settings.ask?.(intent)) !== true) {
        throw new PolicyRefused("The policy asks first, and the answer was no.", { reason: "not_approved" });
      }
    },
  };
}

/** Returns a value's place in a list; what is not in it comes last. */
function rank<T>(list: readonly T[], value: T): number {
  const at = list.indexOf(value);
  return at < 0 ? list.length : at;
}

/** Every field; files set those of `policyFields`. */
const FIELDS: Readonly<Record<keyof AgentPolicy, unknown>> = {
  ...policyFields(z.unknown()),
  prefer: true,
  ask: true,
};

const PREFER: readonly (keyof Preference)[] = ["networks", "tokens", "methods"];

/** @throws ConfigError for a misspelled field, and for a value of another kind that would limit nothing */
function requireFields(settings: AgentPolicy): void {
  requireKnownFields(settings, Object.keys(FIELDS), "policy.");
  const { prefer, networks, tokens, methods, uptoFacilitators, payees, receiptSigners } = settings;
  if (prefer !== undefined) requireKnownFields(prefer, PREFER, "policy.prefer.");
  requireLists({ ...receiptSigners }, "policy.receiptSigners.");
  requireLists({ networks, tokens, methods, uptoFacilitators, payees }, "policy.");
  requireLists({ ...prefer }, "policy.prefer.");
  const { requireUntil, askNewPayees, requireReceipt, allowHttp, ask } = settings;
  for (const [name, value] of Object.entries({ requireUntil, askNewPayees, requireReceipt, allowHttp })) {
    if (value !== undefined && typeof value !== "boolean")
      throw new ConfigError(`policy.${name} must be true or false`);
  }
  if (ask !== undefined && typeof ask !== "function") throw new ConfigError("policy.ask must be a function");
}

function requireLists(lists: Readonly<Record<string, unknown>>, path: string): void {
  for (const [name, list] of Object.entries(lists)) {
    if (list !== undefined && !Array.isArray(list)) {
      throw new ConfigError(`${path}${name} must be a list, such as ["..."]`);
    }
  }
}

/** How many periods can begin in one day: what a short period costs adds up, without another signature. */
const periodsOfDay = ({ periodSec = DAY_SEC }: SpendFacts): bigint =>
  periodSec >= DAY_SEC ? 1n : BigInt(Math.ceil(DAY_SEC / periodSec));

const refuse = (reason: string, message: string): Verdict => ({
  kind: "refuse",
  error: new PolicyRefused(message, { reason }),
});

/** @throws ConfigError: a signer that is misspelt would never be found */
function receiptSignersOf(named: NonNullable<AgentPolicy["receiptSigners"]>): ReadonlyMap<string, readonly string[]> {
  const field = "policy.receiptSigners";
  return new Map(
    Object.entries(named).map(([origin, signers]) => {
      if (!URL.canParse(origin) || originOf(origin) !== origin) {
        throw new ConfigError(`${field} has "${origin}": name an origin, such as https://api.example`);
      }
      return [origin, signers.map((signer) => (DID_OF_KEY.test(signer) ? signer : requireAddress(signer, field)))];
    }),
  );
}

const DID_OF_KEY = /^did:(?:key:z|jwk:)[A-Za-z0-9_-]+$/;

function requireMethods(given: readonly PaymentMethod[], field: string): readonly PaymentMethod[] {
  const unknown = given.find((method) => !PAYMENT_METHODS.includes(method));
  if (unknown === undefined) return given;
  throw new ConfigError(`${field} holds "${unknown}", which is none of ${PAYMENT_METHODS.join(", ")}`);
}

function requireAddress(value: string, field: string): Address {
  return configuredAddress(value, field, `${field} holds "${value}", which is no address`);
}
