/** Reads the routes of `paymentMiddleware`: a gate's own options, or `accepts` as the stock middleware has it. */
import { ConfigError } from "../../protocol";
import { GATE_FIELDS, type GateOptions, type RouteOptions } from "./gate-options";
import type { AcceptOption, PricingEntry } from "./pricing";

/** One entry of `accepts`: a price, and optionally where it is paid. */
export type RouteAccept<Req = unknown> = AcceptOption<Req> & {
  /** the only scheme */
  readonly scheme?: "exact";
};

/** What a request of a route costs. */
export type RoutePayment<Req = unknown> =
  | GateOptions<Req>
  | (RouteOptions<Req> & {
      readonly accepts: RouteAccept<Req> | readonly RouteAccept<Req>[];
      readonly price?: undefined;
      readonly pricing?: undefined;
    });

/** `{ "GET /report": { accepts: { price: "$0.01" } } }`: the first pattern that fits a request decides. */
export type PaymentRoutes<Req = unknown> = Readonly<Record<string, RoutePayment<Req>>>;

const ACCEPT_FIELDS: Readonly<Record<keyof RouteAccept, true>> = {
  scheme: true,
  price: true,
  amount: true,
  network: true,
  token: true,
  payTo: true,
  facilitator: true,
  rpcUrl: true,
};

const ROUTE_FIELDS = ["accepts", ...GATE_FIELDS];

/** @throws ConfigError naming the route and the field that would have no effect */
export function gateOptionsOf<Req>(pattern: string, route: RoutePayment<Req>): GateOptions<Req> {
  const refused = (field: string, why: string) => new ConfigError(`paymentMiddleware: "${pattern}"${field} ${why}`);
  if (typeof route !== "object" || route === null) {
    throw refused("", 'must be { accepts: { price: "$0.01" } }, or the options of paymentGate');
  }
  const surplus = Object.keys(route).find((field) => !ROUTE_FIELDS.includes(field));
  if (surplus) throw refused(`.${surplus}`, "is no option: see the guide on stock x402 for what replaces it");
  const method = /^([a-z]+)\s/i.exec(pattern.trim())?.[1] ?? "GET";
  if (route.page && method.toUpperCase() !== "GET")
    throw refused(".page", "is for GET: name that method, or remove it");
  if (!("accepts" in route)) return route as GateOptions<Req>;
  const { accepts, price, pricing, ...options } = route;
  if (pricing !== undefined) throw refused("", "has accepts and pricing: keep one");
  if (price !== undefined) throw refused("", "has accepts and price: keep one");
  const list = Array.isArray(accepts) ? accepts : [accepts];
  const prices = list.map((entry: RouteAccept<Req>, index): AcceptOption<Req> => {
    const field = `.accepts[${index}]`;
    const unknown = Object.keys(entry ?? {}).find((name) => !Object.hasOwn(ACCEPT_FIELDS, name));
    if (unknown) throw refused(`${field}.${unknown}`, "is no option of a price: see the guide on stock x402");
    const { scheme, ...price }: Omit<AcceptOption<Req>, "scheme"> & { readonly scheme?: string } = entry ?? {};
    if (scheme === "upto")
      throw refused(`${field}.scheme`, 'is "upto": give pricing: [{ type: "upto", max: "$0.50" }] in place of accepts');
    if (scheme !== undefined && scheme !== "exact") throw refused(`${field}.scheme`, `is "${scheme}": use "exact"`);
    return price as AcceptOption<Req>;
  });
  const entry: PricingEntry<Req> = { type: "one-time", prices };
  return { ...options, pricing: [entry] };
}
