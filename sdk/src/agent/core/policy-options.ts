/** The settings of an agent's policy: what each limits, and the checks that none is misread. */
import * as z from "zod";
import {
  type Address,
  ConfigError,
  configuredAddress,
  findNetwork,
  type Network,
  PAYMENT_METHODS,
  type PaymentMethod,
  toAmount,
} from "../../protocol";
import { requireKnownFields } from "../../protocol/arguments";
import { tokensOf } from "../../protocol/networks";
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
   * Default: all others
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

export const DEFAULT_MAX_WINDOW_SEC = 600;

export const DEFAULT_METHODS = PAYMENT_METHODS.filter((method) => method !== "upto");

/** Every field; files set those of `policyFields`. */
const FIELDS: Readonly<Record<keyof AgentPolicy, unknown>> = {
  ...policyFields(z.unknown()),
  prefer: true,
  ask: true,
};

const PREFER: readonly (keyof Preference)[] = ["networks", "tokens", "methods"];

/** @throws ConfigError for a misspelled field, and for a value of another kind that would limit nothing */
export function requireFields(settings: AgentPolicy): void {
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

/** @throws ConfigError: a signer that is misspelt would never be found */
export function receiptSignersOf(
  named: NonNullable<AgentPolicy["receiptSigners"]>,
): ReadonlyMap<string, readonly string[]> {
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

export function requireMethods(given: readonly PaymentMethod[], field: string): readonly PaymentMethod[] {
  const unknown = given.find((method) => !PAYMENT_METHODS.includes(method));
  if (unknown === undefined) return given;
  throw new ConfigError(`${field} holds "${unknown}", which is none of ${PAYMENT_METHODS.join(", ")}`);
}

export function requireAddress(value: string, field: string): Address {
  return configuredAddress(value, field, `${field} holds "${value}", which is no address`);
}

/** A policy's settings as they are judged by: amounts in base units, addresses checked. */
export interface PolicyTerms {
  readonly perPayment: bigint;
  readonly perDay: bigint;
  readonly perPayee: bigint | undefined;
  /** and the setting that it comes from, for errors */
  readonly perSubscription: { readonly limit: bigint; readonly name: string };
  readonly perFirstCharge: bigint | undefined;
  readonly askAbove: bigint | undefined;
  readonly askNewPayees: boolean;
  readonly ask: AgentPolicy["ask"];
  readonly maxWindowSec: number;
  readonly allowHttp: boolean;
  readonly requireUntil: boolean;
  readonly onPayeeChange: AgentPolicy["onPayeeChange"];
  readonly requireReceipt: boolean;
  readonly receiptSigners: ReadonlyMap<string, readonly string[]>;
  /** undefined: all */
  readonly chainIds: readonly number[] | undefined;
  readonly preferred: {
    readonly chainIds: readonly number[];
    /** in lower case */
    readonly tokens: readonly string[];
    readonly methods: readonly PaymentMethod[];
  };
  readonly methods: readonly PaymentMethod[];
  /** accounts that may settle an `upto` payment; undefined: any */
  readonly settlers: readonly Address[] | undefined;
  readonly tokens: readonly Address[] | undefined;
  readonly payees: readonly Address[] | undefined;
}

/** @throws ConfigError that names the setting */
export function policyTermsOf(settings: AgentPolicy, networks: readonly Network[]): PolicyTerms {
  if (settings?.perPayment === undefined || settings.perDay === undefined) {
    throw new ConfigError("policy.perPayment and policy.perDay are required: an agent without limits does not pay");
  }
  requireFields(settings);
  const optional = (value: Amount | undefined, name: string) =>
    value === undefined ? undefined : toAmount(value, name);
  const addressesOf = (values: readonly string[] | undefined, field: string) =>
    values?.map((value) => requireAddress(value, field));
  const perPayment = toAmount(settings.perPayment, "policy.perPayment");
  const perDay = toAmount(settings.perDay, "policy.perDay");
  const perPayee = optional(settings.perPayee, "policy.perPayee");
  const perSubscription = optional(settings.perSubscription, "policy.perSubscription");
  const perFirstCharge = optional(settings.perFirstCharge, "policy.perFirstCharge");
  const askAbove = optional(settings.askAbove, "policy.askAbove");
  const maxWindowSec = requireWindow(settings.maxWindowSec ?? DEFAULT_MAX_WINDOW_SEC);
  const onPayeeChange = requirePayeeChange(settings.onPayeeChange);
  for (const each of networks)
    for (const token of tokensOf(each)) requireAddress(token.address, `networks: token of ${each.name}`);
  const chainIds = settings.networks && chainIdsOf(settings.networks, networks, "policy.networks");
  const { prefer } = settings;
  const preferred = {
    chainIds: chainIdsOf(prefer?.networks ?? [], networks, "policy.prefer.networks"),
    tokens: (prefer?.tokens ?? []).map((token) => requireAddress(token, "policy.prefer.tokens").toLowerCase()),
    methods: requireMethods(prefer?.methods ?? ["eip3009"], "policy.prefer.methods"),
  };
  const methods = requireMethods(settings.methods ?? DEFAULT_METHODS, "policy.methods");
  const settlers = addressesOf(settings.uptoFacilitators, "policy.uptoFacilitators");
  const tokens = addressesOf(settings.tokens, "policy.tokens");
  const receiptSigners = receiptSignersOf(settings.receiptSigners ?? {});
  const payees = addressesOf(settings.payees, "policy.payees");
  return {
    perPayment,
    perDay,
    perPayee,
    perSubscription:
      perSubscription === undefined
        ? {
            limit: perDay,
            name: "policy.perDay (it limits a plan's price while policy.perSubscription is not set)",
          }
        : { limit: perSubscription, name: "policy.perSubscription" },
    perFirstCharge,
    askAbove,
    askNewPayees: settings.askNewPayees ?? false,
    ask: settings.ask,
    maxWindowSec,
    allowHttp: settings.allowHttp ?? false,
    requireUntil: settings.requireUntil ?? false,
    onPayeeChange,
    requireReceipt: settings.requireReceipt ?? false,
    receiptSigners,
    chainIds,
    preferred,
    methods,
    settlers,
    tokens,
    payees,
  };
}

function requireWindow(seconds: number): number {
  if (Number.isSafeInteger(seconds) && seconds >= 30) return seconds;
  throw new ConfigError("policy.maxWindowSec must be a whole number of seconds, at least 30");
}

function requirePayeeChange(given: AgentPolicy["onPayeeChange"]): AgentPolicy["onPayeeChange"] {
  if (given === undefined || given === "cancel" || given === "notify") return given;
  throw new ConfigError('policy.onPayeeChange must be "cancel" or "notify"');
}

function chainIdsOf(names: readonly string[], networks: readonly Network[], field: string): readonly number[] {
  return names.map((name) => {
    const network = findNetwork(name, networks);
    if (!network) throw new ConfigError(`${field} holds "${name}", which is no known network`);
    return network.chainId;
  });
}
