/** The options of a gated route, and the checks of those that need more than their type. */
import { ConfigError } from "../../protocol";
import { anything, aText, callback, type FieldChecks, flag, type OptionCheck } from "../../protocol/arguments";
import type { GateContext } from "./context";
import type { Discovery } from "./offers";
import type { Payment } from "./payment";
import { type PricingEntry, requireKnown, type WrittenPrice } from "./pricing";

/** What one route offers, and how it is treated. */
export type GateOptions<Req = unknown> = RouteOptions<Req> & PricingOptions<Req>;

/** `price`, or every way to pay in `pricing`. */
export type PricingOptions<Req = unknown> =
  | { readonly pricing: readonly PricingEntry<Req>[]; readonly price?: undefined }
  | {
      /** "$0.50": short for `pricing: [{ type: "one-time", price: "$0.50" }]` */
      readonly price: WrittenPrice<Req>;
      readonly pricing?: undefined;
    };

/** How one route is treated. */
export interface RouteOptions<Req = unknown> {
  /** requests that cost nothing; a throw is a 500, never free */
  readonly free?: (request: Req) => boolean | Promise<boolean>;
  /** refuse before the handler when a subscription's allowance is spent; set by the first deductAllowance otherwise */
  readonly metered?: boolean;
  /** asked before a payment is used up; false is a 403 and leaves the payment unused */
  readonly authorize?: (payment: Payment, request: Req) => boolean | Promise<boolean>;
  /** tie each quote to the body that it was asked for with: needed where the price depends on the body */
  readonly bind?: "body";
  /** false keeps no answer of this route for a client that lost it */
  readonly replay?: boolean;
  /** the most that `bind: "body"` reads of a body; a longer one is 413; default 1,048,576 */
  readonly maxBodyBytes?: number;
  /**
   * when a standard x402 payment settles: "after" the handler, so that a failure costs nothing, or "before" it, for
   * handlers that stream; default "after" where the Facilitator reserves payments, otherwise "before"
   */
  readonly settle?: "before" | "after";
  /**
   * which answers below 400 are charged for, where the payment settles after the handler: false for a status makes it
   * cost nothing, as 400 and more do; default all but 304. A throw is a 500, and costs nothing
   */
  readonly chargeFor?: (status: number) => boolean;
  /**
   * answer a browser that opens the route by GET with a page on which a person pays by a wallet and then sees the
   * content; every other client gets JSON as before. Needs a one-time price and the token's decimals; default false
   */
  readonly page?: boolean;
  /**
   * have a one-time payment refunded when it has settled and its handler answers with 400 or more, or throws: from the
   * account that the provider has named at its Facilitator; needs `facilitator.refundsKey`; default false: it may be
   * presented again after a 5xx
   */
  readonly refundOnFailure?: boolean;
  /** shown to clients with the price; default "" */
  readonly description?: string;
  /** default "application/json" */
  readonly mimeType?: string;
  /** let anyone buy one request at the plan's price where only plans are offered; default false */
  readonly sellSingleAtPlanPrice?: boolean;
  /** how to call the resource, for catalogues of x402 version 2 (the extension `bazaar`) */
  readonly discovery?: Discovery;
  /** send PAYMENT-REQUIRED for clients of x402 version 2; default true */
  readonly x402v2?: boolean;
  /**
   * true sets CORS headers where the application has set none, and false sets none; default: true, but for a 402 whose
   * payer could not collect, because nothing takes OPTIONS for its path
   */
  readonly cors?: boolean;
}

/** Clients of version 2 repeat it in their payments, where a NUL is refused. */
const echoedText: OptionCheck = (value, field) => {
  aText(value, field);
  if (String(value).includes("\0")) throw new ConfigError(`${field} holds a NUL character: leave it out`);
};

/** Those of `anything` are checked where they are read. */
const FIELDS: FieldChecks<GateOptions> = {
  price: anything,
  pricing: anything,
  free: callback,
  metered: flag,
  authorize: callback,
  bind: anything,
  replay: flag,
  maxBodyBytes: anything,
  settle: anything,
  chargeFor: anything,
  page: anything,
  refundOnFailure: anything,
  description: echoedText,
  mimeType: echoedText,
  sellSingleAtPlanPrice: flag,
  discovery: anything,
  x402v2: flag,
  cors: flag,
};

export const GATE_FIELDS: readonly string[] = Object.keys(FIELDS);

/** @throws ConfigError that names an option without effect, or of another kind */
export function checkGateOptions<Req>(options: GateOptions<Req>): void {
  requireKnown(options, GATE_FIELDS, "paymentGate");
  for (const [name, check] of Object.entries<OptionCheck>(FIELDS)) {
    const value = options[name as keyof GateOptions];
    if (value !== undefined) check(value, name);
  }
}

/** @throws ConfigError where a route has neither, or both */
export function pricingEntriesOf<Req>({ price, pricing }: PricingOptions<Req>): readonly PricingEntry<Req>[] {
  if (price === undefined) return pricing;
  if (pricing === undefined) return [{ type: "one-time", price }];
  throw new ConfigError("price and pricing are both set: move the price into an entry of pricing");
}

/** @throws ConfigError where it is no function, or payments settle before their handler's status is known */
export function chargeForOf({ chargeFor, settle }: GateOptions<never>): GateOptions["chargeFor"] {
  if (chargeFor === undefined) return undefined;
  if (typeof chargeFor !== "function") throw new ConfigError("chargeFor is no function: use (status) => boolean");
  if (settle !== "before") return chargeFor;
  throw new ConfigError('chargeFor is set, but settle is "before": a payment that has settled is charged. Use "after"');
}

/** @throws ConfigError where failures could not be refunded, or nothing is sold that could be */
export function mayRefund(
  { refundOnFailure = false, sellSingleAtPlanPrice }: GateOptions<never>,
  contexts: readonly GateContext[],
  hasPrices: boolean,
): boolean {
  if (typeof refundOnFailure !== "boolean") {
    throw new ConfigError(`refundOnFailure is ${JSON.stringify(refundOnFailure)}: use true, or leave it out`);
  }
  if (!refundOnFailure) return false;
  if (!hasPrices && !sellSingleAtPlanPrice) {
    throw new ConfigError("refundOnFailure is set without a one-time price: only one-time payments are refunded");
  }
  for (const { settings } of contexts) {
    if (settings.facilitator?.refundsKey !== undefined) continue;
    throw new ConfigError(
      `refundOnFailure is set, but facilitator.refundsKey (TURNPIKE_REFUNDS_KEY) is not, for payments on ${settings.network.name}: use an API key with the scope refunds`,
    );
  }
  return true;
}

/** Whether quotes are tied to bodies, and the most that is read of one. */
export interface BodyBinding {
  readonly bindsBody: boolean;
  /** of a body that is bound */
  readonly maxBodyBytes: number;
}

const MAX_BODY_BYTES = 1_048_576;

/** @throws ConfigError: a setting that is misspelt or without effect would leave bodies unbound */
export function bindingOf({ bind, maxBodyBytes }: GateOptions<never>): BodyBinding {
  if (bind !== undefined && bind !== "body")
    throw new ConfigError(`bind is "${String(bind)}": "body" is all it can be`);
  if (bind === undefined && maxBodyBytes !== undefined) {
    throw new ConfigError('maxBodyBytes is set without bind: "body": a gate that binds no bodies reads none');
  }
  const bytes = maxBodyBytes ?? MAX_BODY_BYTES;
  if (Number.isSafeInteger(bytes) && bytes >= 1) return { bindsBody: bind === "body", maxBodyBytes: bytes };
  throw new ConfigError(`maxBodyBytes is ${bytes}: use a whole number of at least 1`);
}
