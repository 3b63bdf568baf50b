/** Checks a route's pricing and turns it into prices and plans. */
import {
  ConfigError,
  type Hex,
  isHash32,
  isTurnpikeError,
  type PricedToken,
  parsePrice,
  TurnpikeError,
  toAmount,
} from "../../protocol";
import type { Settings } from "./settings";

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
      readonly price: string | ((request: Req) => string | Promise<string>);
      readonly amount?: undefined;
    };

/** One way to pay. */
export type PricingEntry<Req = unknown> =
  | { readonly type: "subscription"; readonly plan: string }
  | ({ readonly type: "one-time" } & Cost<Req>);

export type Price =
  | { readonly kind: "fixed"; readonly amount: bigint }
  | { readonly kind: "computed"; readonly of: (raw: unknown) => Promise<bigint> };

export interface Pricing {
  readonly prices: readonly Price[];
  readonly planIds: readonly Hex[];
}

/** @throws ConfigError for an entry that could never be charged as written */
export function pricingOf<Req>(entries: readonly PricingEntry<Req>[], settings: Settings): Pricing {
  if (!Array.isArray(entries) || entries.length === 0) {
    throw new ConfigError("pricing is empty: give it a one-time or a subscription entry");
  }
  const prices: Price[] = [];
  const planIds = new Set<Hex>();
  entries.forEach((entry: PricingEntry<Req>, index) => {
    const field = `pricing[${index}]`;
    switch (entry?.type) {
      case "one-time":
        prices.push(priceOf(entry as Cost, requireToken(settings), field));
        break;
      case "subscription":
        if (!isHash32(entry.plan)) {
          throw new ConfigError(`${field}.plan is "${String(entry.plan)}": a plan id is 0x and 64 hex digits`);
        }
        planIds.add(entry.plan.toLowerCase() as Hex);
        break;
      default:
        throw new ConfigError(`${field}.type must be "one-time" or "subscription"`);
    }
  });
  requireSettings(settings, prices.length > 0, planIds.size > 0);
  return { prices, planIds: [...planIds] };
}

function requireToken({ token, network }: Settings): PricedToken {
  if (token) return token;
  throw new ConfigError(`token is not set (TURNPIKE_TOKEN): ${network.name} has no default token`);
}

function requireSettings(settings: Settings, sellsSingle: boolean, sellsPlans: boolean): void {
  const missing = (what: string) => new ConfigError(what);
  if (!settings.facilitator)
    throw missing("facilitator is not set (TURNPIKE_FACILITATOR_URL): clients settle through it");
  if (sellsSingle) {
    if (!settings.payTo) throw missing("payTo is not set (TURNPIKE_PAY_TO): who receives one-time payments?");
  }
  if (settings.facilitator.signers.list.length === 0) {
    throw missing("facilitator.signers is empty (TURNPIKE_FACILITATOR_SIGNERS): pin the addresses whose proofs count");
  }
  if (sellsPlans && !settings.deployment) {
    throw missing(`turnpike is not set (TURNPIKE_ADDRESS), and no deployment is known on ${settings.network.name}`);
  }
}

function priceOf({ amount, price }: Cost, token: PricedToken, field: string): Price {
  if ((amount === undefined) === (price === undefined)) {
    throw new ConfigError(
      `${field} needs one of \`price\`, such as "$0.05", and \`amount\`, in base units${amount === undefined ? "" : ", not both"}`,
    );
  }
  const name = amount === undefined ? `${field}.price` : `${field}.amount`;
  const read = (value: unknown): bigint =>
    positive(amount === undefined ? parsePrice(value, token, name) : toAmount(value as Amount, name), name);
  const given = amount ?? price;
  if (typeof given !== "function") return { kind: "fixed", amount: read(given) };
  return {
    kind: "computed",
    of: async (raw) => {
      try {
        return read(await given(raw));
      } catch (cause) {
        if (isTurnpikeError(cause) && cause.status === 400) throw cause;
        // A price that fails is never a free request.
        throw new TurnpikeError("Internal", "The price of this request could not be computed.", { cause });
      }
    },
  };
}

function positive(amount: bigint, field: string): bigint {
  if (amount > 0n) return amount;
  throw new ConfigError(`${field} is 0: name a price, or use \`free\` for requests that cost nothing`);
}
