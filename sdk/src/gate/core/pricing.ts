/** Checks a route's pricing and turns it into prices and plans. */
import {
  ConfigError,
  type Hex,
  isHash32,
  isTurnpikeError,
  type Money,
  parseMoney,
  parsePrice,
  toAmount,
} from "../../protocol";
import { kindOf, wrongKind } from "../../protocol/arguments";
import { type Method, methodOfPrice, type SchemeName } from "../methods";
import { callbackFault } from "./callback-fault";
import type { GateContext } from "./context";
import type { PaymentTarget } from "./options";
import type { Settings, TargetSettings } from "./settings";

export type Amount = bigint | number | string;

/** What one request costs: `amount` or `price`, never both. A function of the request is run once for each quote. */
export type Cost<Req = unknown> =
  | {
      /** whole base units of the token (500000 is 0.50 of a 6-decimal token) */
      readonly amount: Amount | ((request: Req) => bigint | number | Promise<bigint | number>);
      readonly price?: undefined;
    }
  | {
      /** as people write it: "$0.05", or with the token's symbol "0.05 USDC"; text, never a number */
      readonly price: WrittenPrice<Req>;
      readonly amount?: undefined;
    };

export type WrittenPrice<Req = unknown> = string | ((request: Req) => string | Promise<string>);

/** The most that one request may cost; `payment.charge()` then names what it does cost. */
export interface MaximumCost<Req = unknown> {
  /** base units as a bigint or a safe integer, or text as prices are written, such as "$0.50" */
  readonly max: Money | ((request: Req) => Money | Promise<Money>);
}

/** One entry of a 402: what a request costs, and what that is paid with. */
export type AcceptOption<Req = unknown> = PaymentTarget & Cost<Req>;

/** One way to pay. */
export type PricingEntry<Req = unknown> =
  | { readonly type: "subscription"; readonly plan: string }
  | ({ readonly type: "one-time"; readonly prices?: undefined } & Cost<Req>)
  | {
      readonly type: "one-time";
      /** the same request in several tokens or on several networks: any one of them buys it */
      readonly prices: readonly AcceptOption<Req>[];
    }
  | ({
      /** the scheme `upto` of x402: the payer permits a maximum, and pays what the handler charges, after it */
      readonly type: "upto";
      readonly prices?: undefined;
    } & MaximumCost<Req>)
  | {
      readonly type: "upto";
      /** the same request in several tokens or on several networks */
      readonly prices: readonly (PaymentTarget & MaximumCost<Req>)[];
    };

export type Price = {
  /** in which its payments are judged */
  readonly context: GateContext;
  readonly scheme: SchemeName;
  readonly method: Method;
} & (
  | { readonly kind: "fixed"; readonly amount: bigint }
  | { readonly kind: "computed"; readonly of: (raw: unknown) => Promise<bigint> }
);

export interface Pricing {
  readonly prices: readonly Price[];
  readonly planIds: readonly Hex[];
  /** every context in which this route's payments are judged, the provider's own first; at least one */
  readonly contexts: readonly GateContext[];
}

/** @throws ConfigError for an entry that could never be charged as written */
export function pricingOf<Req>(entries: readonly PricingEntry<Req>[], provider: GateContext): Pricing {
  if (!Array.isArray(entries))
    throw wrongKind(entries, "pricing", 'a list of entries; for one price write price: "$0.50"');
  if (entries.length === 0) {
    throw new ConfigError("pricing is empty: give it a one-time or a subscription entry");
  }
  const prices: Price[] = [];
  const planIds = new Set<Hex>();
  entries.forEach((entry: PricingEntry<Req>, index) => {
    const field = `pricing[${index}]`;
    switch (entry?.type) {
      case "one-time":
        for (const [option, name] of optionsOf<AcceptOption>(entry as PaidEntry, field)) {
          prices.push(priceOf(option, provider.forTarget(option, name), name));
        }
        break;
      case "upto":
        for (const [option, name] of optionsOf<PaymentTarget & MaximumCost>(entry as PaidEntry, field)) {
          prices.push(maximumOf(option, provider.forTarget(option, name), name));
        }
        break;
      case "subscription":
        requireKnown(entry, ["type", "plan"], field);
        if (!isHash32(entry.plan)) {
          throw new ConfigError(
            `${field}.plan is ${typeof entry.plan === "string" ? `"${entry.plan}"` : kindOf(entry.plan)}: a plan id is 0x and 64 hex digits`,
          );
        }
        planIds.add(entry.plan.toLowerCase() as Hex);
        break;
      default:
        throw new ConfigError(`${field}.type must be "one-time", "upto" or "subscription"`);
    }
  });
  if (planIds.size > 0) requireForPlans(provider.settings);
  const paid = new Set(prices.map(({ context }) => context));
  const contexts = planIds.size > 0 || paid.has(provider) ? new Set([provider, ...paid]) : paid;
  requireDistinct([...contexts]);
  for (const { settings } of paid) hintNetworkNames(settings);
  return { prices, planIds: [...planIds], contexts: [...contexts] };
}

type PaidEntry = PricingEntry & { readonly type: "one-time" | "upto" };

/** Returns an entry's options, each with the field that errors name. */
function optionsOf<Option>(entry: PaidEntry, field: string): (readonly [option: Option, name: string])[] {
  const { prices } = entry;
  requireKnown(entry, ["type", "prices", ...COST_FIELDS, ...TARGET_FIELDS], field);
  if (prices === undefined) {
    // Only `prices` has targets: an entry with one of its own would be sold elsewhere than it says.
    const target = TARGET_FIELDS.find((name) => name in entry);
    if (target)
      throw new ConfigError(`${field}.${target} is set outside of \`prices\`: write prices: [{ ${target}, ... }]`);
    return [[entry as Option, field]];
  }
  if (!Array.isArray(prices) || prices.length === 0) throw new ConfigError(`${field}.prices is empty: name a price`);
  if (prices.length > MAX_PRICES) throw new ConfigError(`${field}.prices has more than ${MAX_PRICES} entries`);
  const cost = COST_FIELDS.find((name) => name in entry);
  if (cost) throw new ConfigError(`${field}.${cost} is set beside \`prices\`: set it in each of them`);
  return prices.map((option, index) => {
    const name = `${field}.prices[${index}]`;
    requireKnown(option, [...COST_FIELDS, ...TARGET_FIELDS], name);
    return [option as Option, name];
  });
}

/** @throws ConfigError for a field without effect: a misspelt `payTo` would have somebody else paid */
export function requireKnown(given: object, known: readonly string[], place: string): void {
  const unknown = Object.keys(given ?? {}).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw new ConfigError(`${place} has ${unknown}, which is no option here: the options are ${known.join(", ")}`);
}

const COST_FIELDS = ["amount", "price", "max"] as const;

const TARGET_FIELDS = ["network", "token", "payTo", "facilitator", "rpcUrl"] as const;

/** More entries fit into no header, and clients read no more than a few. */
const MAX_PRICES = 16;

/** @throws ConfigError where a payment could not be assigned to one context */
function requireDistinct(contexts: readonly GateContext[]): void {
  const known = new Map<string, GateContext["settings"]>();
  const chainIds = new Map<string, number>();
  for (const { settings } of contexts) {
    const { network, token, payTo } = settings;
    const place = `${network.chainId} ${token?.address} ${payTo}`;
    if (known.has(place)) {
      throw new ConfigError(
        `pricing names token ${token?.address} and payTo ${payTo} on ${network.name} twice, with different settings: give each its own payTo, or the same settings`,
      );
    }
    known.set(place, settings);
    const chainId = chainIds.get(network.name) ?? network.chainId;
    if (chainId !== network.chainId) {
      throw new ConfigError(`networks names the chains ${chainId} and ${network.chainId} both "${network.name}"`);
    }
    chainIds.set(network.name, chainId);
  }
}

const hinted = new Set<string>();

/** Says once for each network that stock clients of version 1 cannot read its default name. */
function hintNetworkNames({ network: { name, x402v1 }, networkNames }: Settings): void {
  if (networkNames !== undefined || x402v1 === undefined || x402v1 === name || hinted.has(name)) return;
  hinted.add(name);
  process.emitWarning(
    `Stock x402 version 1 clients refuse a 402 that names "${name}". Set networkNames (TURNPIKE_NETWORK_NAMES) to "x402-v1" to write "${x402v1}", or to "turnpike" if none are expected.`,
    { code: "TURNPIKE_NETWORK_NAMES" },
  );
}

function requireForPayments({ token, network, payTo, facilitator }: TargetSettings): void {
  if (!token) throw new ConfigError(`token is not set (TURNPIKE_TOKEN): ${network.name} has no default token`);
  if (!payTo) throw new ConfigError("payTo is not set (TURNPIKE_PAY_TO): who receives one-time payments?");
  // Another project's Facilitator signs nothing that could be pinned; no native proof counts then.
  if (!facilitator?.trustUnsigned) requireSigners(facilitator);
}

function requireForPlans({ facilitator, deployment, network }: TargetSettings): void {
  requireSigners(facilitator);
  if (deployment) return;
  throw new ConfigError(`turnpike is not set (TURNPIKE_ADDRESS), and no deployment is known on ${network.name}`);
}

function requireSigners(facilitator: TargetSettings["facilitator"]): void {
  if (!facilitator)
    throw new ConfigError("facilitator is not set (TURNPIKE_FACILITATOR_URL): clients settle through it");
  if (facilitator.signers.list.length > 0) return;
  throw new ConfigError(
    `facilitator.signers is empty (TURNPIKE_FACILITATOR_SIGNERS): pin the addresses whose proofs of ${facilitator.url} count. configure() pins the first it sees by https, where claims last`,
  );
}

/** @throws ConfigError also where the Facilitator cannot be one that settles after the handler */
function maximumOf({ max }: MaximumCost, context: GateContext, field: string): Price {
  const { token = {}, facilitator } = context.settings;
  requireForPayments(context.settings);
  if (facilitator?.trustUnsigned) {
    throw new ConfigError(
      `${field} is of type "upto", which needs a Facilitator that reserves payments: trustUnsigned names another project's`,
    );
  }
  if (max === undefined)
    throw new ConfigError(`${field} needs \`max\`, such as "$0.50": the most that a request may cost`);
  const name = `${field}.max`;
  return amountOf(max, { context, scheme: "upto", field: name }, (value) =>
    positive(parseMoney(value, token, name), name),
  );
}

function priceOf(cost: Cost, context: GateContext, field: string): Price {
  const { amount, price } = cost;
  requireForPayments(context.settings);
  const { token = {} } = context.settings;
  if ("max" in cost) throw new ConfigError(`${field}.max is of entries of type "upto": use \`price\` or \`amount\``);
  if ((amount === undefined) === (price === undefined)) {
    throw new ConfigError(
      `${field} needs one of \`price\`, such as "$0.05", and \`amount\`, in base units${amount === undefined ? "" : ", not both"}`,
    );
  }
  const name = amount === undefined ? `${field}.price` : `${field}.amount`;
  const read = (value: unknown): bigint =>
    positive(amount === undefined ? parsePrice(value, token, name) : toAmount(value as Amount, name), name);
  return amountOf(amount ?? price, { context, scheme: "exact", field: name }, read);
}

/** @param given the provider's value, or its function of the request */
function amountOf(
  given: unknown,
  { field, context, scheme }: Pick<Price, "context" | "scheme"> & { readonly field: string },
  read: (value: unknown) => bigint,
): Price {
  const of = { context, scheme, method: methodOfPrice(scheme, context.settings.token?.transferMethod) };
  if (typeof given !== "function") return { ...of, kind: "fixed", amount: read(given) };
  return {
    ...of,
    kind: "computed",
    of: async (raw) => {
      try {
        return read(await given(raw));
      } catch (cause) {
        if (isTurnpikeError(cause) && cause.status === 400) throw cause;
        // A price that fails is never a free request.
        throw callbackFault(field, "The price of this request could not be computed.", cause);
      }
    },
  };
}

function positive(amount: bigint, field: string): bigint {
  if (amount > 0n) return amount;
  throw new ConfigError(`${field} is 0: name a price, or use \`free\` for requests that cost nothing`);
}
