/**
 * Finds what a request says about its chain: a network by name, or ids and tokens that belong to a chain. Fields are read
 * where the endpoints' schemas have them; these schemas check them afterwards.
 */
import { addressSchema, hash32Schema, idHashOf } from "turnpike/protocol";

export type LookupKind = "subscription" | "plan" | "payment" | "transaction" | "listing" | "token";

export interface Lookup {
  readonly kind: LookupKind;
  readonly id: string;
}

export interface ChainHints {
  /** named in the query: it decides */
  readonly asked?: string;
  /** named in the body, where the endpoint compares it with its own chain */
  readonly named?: string;
  readonly lookups: readonly Lookup[];
  /** payments and subscriptions that the request is about, whichever chain it names */
  readonly objects: readonly Lookup[];
  /** whether the request cannot be understood without its chain */
  readonly isNeeded: boolean;
}

const PATHS: readonly (readonly [RegExp, LookupKind])[] = [
  [/^\/payments\/([^/]+)/, "payment"],
  [/^\/refunds\/([^/]+)/, "payment"],
  [/^\/subscriptions\/(0x[^/]+)/, "subscription"],
  [/^\/plans\/([^/]+)/, "plan"],
  [/^\/transactions\/([^/]+)/, "transaction"],
  [/^\/discovery\/listings\/([^/]+)/, "listing"],
  [/^\/refund-accounts\/([^/]+)/, "token"],
];

/** Signed for one chain, and without any id that shows which. */
const NEEDED = new Set(["/subscriptions/void"]);

export function hintsOf({ pathname, searchParams }: URL, body: unknown): ChainHints {
  const asked = searchParams.get("network") ?? undefined;
  const named = networkIn(body);
  const lookups = (asked ?? named) ? [] : [...inPath(pathname), ...inQuery(searchParams), ...inBody(body)];
  return {
    ...(asked !== undefined && { asked }),
    ...(named !== undefined && { named }),
    lookups,
    objects: [...inPath(pathname), ...signupIn(pathname, body)],
    isNeeded: NEEDED.has(pathname),
  };
}

/** Returns the network that a body names, wherever its schema has it. */
export function networkIn(body: unknown): string | undefined {
  const { network, signedPayment, paymentRequirements, proof } = fieldsOf(body);
  const found = [network, ...[signedPayment, paymentRequirements, proof].map((part) => fieldsOf(part).network)];
  return found.find((name): name is string => typeof name === "string");
}

const fieldsOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};

function inPath(pathname: string): Lookup[] {
  return PATHS.flatMap(([form, kind]) => lookupOf(kind, form.exec(pathname)?.[1]));
}

/** The subscription that a signup creates or voids. */
function signupIn(pathname: string, body: unknown): Lookup[] {
  if (!/^\/subscriptions(?:\/void)?$/.test(pathname)) return [];
  const { subscriber, secretHash } = fieldsOf(body);
  const [account, secret] = [addressSchema.safeParse(subscriber), hash32Schema.safeParse(secretHash)];
  return account.success && secret.success ? lookupOf("subscription", idHashOf(account.data, secret.data)) : [];
}

function inQuery(query: URLSearchParams): Lookup[] {
  return lookupOf("token", query.get("token"));
}

function inBody(body: unknown): Lookup[] {
  const { planId, planIds, token } = fieldsOf(body);
  return [
    ...lookupOf("plan", planId),
    ...listOf(planIds).flatMap((id) => lookupOf("plan", id)),
    ...listOf(body).flatMap((item) => lookupOf("subscription", fieldsOf(item).idHash)),
    ...lookupOf("token", token),
  ];
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** What is malformed is left to the endpoint. */
function lookupOf(kind: LookupKind, value: unknown): Lookup[] {
  if (kind === "listing") return typeof value === "string" ? [{ kind, id: value }] : [];
  const schema = kind === "token" ? addressSchema : hash32Schema;
  const read = schema.safeParse(value);
  return read.success ? [{ kind, id: read.data }] : [];
}
