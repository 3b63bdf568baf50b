/**
 * Finds what a request says about its chain: a network by name, or ids and tokens that belong to a chain. Fields are read
 * where the endpoints' schemas have them; these schemas check them afterwards.
 */
import { TrieRouter } from "hono/router/trie-router";
import { ENDPOINTS, type EndpointSpec, SUBSCRIPTION_ENDPOINTS } from "turnpike/facilitator";
import { addressSchema, hash32Schema, idHashOf } from "turnpike/protocol";

/** What an id names. */
export type LookupKind = NonNullable<EndpointSpec["objects"]>[string];

export interface Lookup {
  readonly kind: LookupKind;
  readonly id: string;
}

export interface ChainHints {
  /** undefined for what is no endpoint */
  readonly endpoint?: EndpointSpec;
  /** named in the query: it decides */
  readonly asked?: string;
  /** named in the body, where the endpoint compares it with its own chain */
  readonly named?: string;
  readonly lookups: readonly Lookup[];
  /** payments and subscriptions that the request is about, whichever chain it names */
  readonly objects: readonly Lookup[];
}

const router = new TrieRouter<EndpointSpec>();
for (const endpoint of ENDPOINTS) router.add(endpoint.method, endpoint.path.replaceAll(/\{(\w+)\}/g, ":$1"), endpoint);

interface Found {
  readonly endpoint: EndpointSpec;
  /** the fields of its path */
  readonly params: Readonly<Record<string, string>>;
}

/** Returns the endpoint of a request; undefined for what is none: a page, metrics, a stream. */
export function endpointOf(method: string, pathname: string): Found | undefined {
  const verb = method === "HEAD" ? "get" : method.toLowerCase();
  const [first] = router.match(verb, pathname)[0] as [EndpointSpec, Record<string, string>][];
  return first && { endpoint: first[0], params: first[1] };
}

const { createSubscription, voidSignup } = SUBSCRIPTION_ENDPOINTS;

export function hintsOf(method: string, { pathname, searchParams }: URL, body: unknown): ChainHints {
  const { endpoint, params = {} } = endpointOf(method, pathname) ?? {};
  const asked = searchParams.get("network") ?? undefined;
  const named = networkIn(body);
  const inPath = Object.entries(endpoint?.objects ?? {}).flatMap(([name, kind]) => lookupOf(kind, params[name]));
  const isSignup = endpoint?.id === createSubscription.id || endpoint?.id === voidSignup.id;
  return {
    ...(endpoint && { endpoint }),
    ...(asked !== undefined && { asked }),
    ...(named !== undefined && { named }),
    lookups: (asked ?? named) ? [] : [...inPath, ...inQuery(searchParams), ...inBody(body)],
    objects: [...inPath, ...(isSignup ? signupIn(body) : [])],
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

/** The subscription that a signup creates or voids. */
function signupIn(body: unknown): Lookup[] {
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
