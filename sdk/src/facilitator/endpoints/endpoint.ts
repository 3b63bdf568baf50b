/**
 * Defines an endpoint of the Facilitator's HTTP API as one object. The service mounts and routes it, the client calls it,
 * and openapi.json and the reference describe it.
 */
import * as z from "zod";
import type { ErrorCode } from "../../protocol";
import type { ApiScope } from "../keys";

/** Of an object in a path, what finds its chain. */
export type ObjectKind = "subscription" | "plan" | "payment" | "transaction" | "listing" | "token";

/** Everything about one endpoint except its id and its tag. */
export interface EndpointTerms {
  readonly method: "get" | "post" | "patch" | "delete";
  /** OpenAPI form: /plans/{planId} */
  readonly path: string;
  /** what it does; its first sentence is the summary */
  readonly text: string;
  /** the scope that an API key needs; absent: open to anyone */
  readonly scope?: ApiScope | "any";
  /** whether the key's wallet must operate the service */
  readonly isForOperators?: true;
  readonly params?: z.ZodObject;
  readonly query?: z.ZodObject;
  readonly body?: z.ZodType;
  /** by status */
  readonly answers: Readonly<Record<number, z.ZodType>>;
  /** set for a text response instead of JSON */
  readonly mediaType?: "text/csv";
  /** codes besides those that the inputs and the scope imply */
  readonly errors?: readonly ErrorCode[];
  /**
   * Which chain of several answers a request that names none. Absent: the chain of its objects, or the first. `shared`: it
   * concerns no single chain, so any answers and a key of any serves. `up`: the first that is up. `named`: the request must
   * name one. `all`: any, also about a network that is not served.
   */
  readonly chain?: "shared" | "up" | "named" | "all";
  /** parameters of the path that name an object of one chain */
  readonly objects?: Readonly<Record<string, ObjectKind>>;
}

/** What the endpoints of a tag are about. */
export const API_TAGS = {
  payments: "One-time payments: settle, status, proofs.",
  subscriptions: "Signups and changes that a subscriber signed, and the status of a subscription.",
  accounts: "Balances, token approvals and subscriptions of an account.",
  plans: "Plans of all providers.",
  x402: "The standard x402 Facilitator API, versions 1 and 2.",
  keys: "API keys of a provider, and the audit log.",
  labels: "What a provider calls its payers and plans.",
  events: "The provider's events, to poll instead of webhooks.",
  debits: "Metered usage: debits of allowances.",
  webhooks: "Webhook endpoints and their deliveries.",
  discovery: "The catalogue of paid resources, and the listings of a provider.",
  analytics: "Figures of one provider.",
  operator: "Figures of the whole service, for its operator.",
  service: "Health, readiness and transaction costs.",
  sandbox: "Exists in a local sandbox only.",
} as const;

/** One endpoint of the API. */
export interface EndpointSpec extends EndpointTerms {
  /** the operation id */
  readonly id: string;
  readonly tag: keyof typeof API_TAGS;
}

/** Endpoints by their operation ids. */
export type Endpoints<G> = {
  readonly [K in keyof G & string]: G[K] & { readonly id: K; readonly tag: keyof typeof API_TAGS };
};

/** @param group by operation id */
export const endpoints = <const G extends Readonly<Record<string, EndpointTerms>>>(
  tag: EndpointSpec["tag"],
  group: G,
): Endpoints<G> =>
  Object.fromEntries(Object.entries(group).map(([id, terms]) => [id, { ...terms, id, tag }])) as Endpoints<G>;

const at =
  <const M extends EndpointTerms["method"]>(method: M) =>
  <const P extends string>(path: P) => ({ method, path });

export const get = at("get");

export const post = at("post");

export const patch = at("patch");

export const del = at("delete");

/** Of a payment that is to be settled. */
export const PAYMENT_ERRORS = [
  "PayloadConflict",
  "InsufficientFunds",
  "PaymentExpired",
  "PaymentNotAllowed",
] as const satisfies ErrorCode[];

/** Of a refund, besides its signature's. */
export const REFUND_ERRORS = [
  ...PAYMENT_ERRORS,
  ...(["UnknownObject", "PaymentPending", "RefundExceedsPayment"] as const),
] as const;

/** Ends the text of a list that has pages. */
export const PAGED = "Returns one page; pass `next` as `cursor` for the following page.";

export const limitSchema = z
  .string()
  .regex(/^(?:[1-9][0-9]?|1[0-9]{2}|200)$/, "must be a whole number from 1 to 200")
  .default("50")
  .transform(Number);

/** A position in a list, as an earlier page returned it. */
const cursorSchema = z
  .string()
  .regex(/^(?:0|[1-9][0-9]{0,14})$/, "must be a cursor that an earlier page returned")
  .default("0")
  .transform(Number);

/** Pages of a list: `limit` rows at a time; each has the cursor of the next one. */
export const page = { cursor: cursorSchema, limit: limitSchema };

/** Of several chains, the one that a request is for. Every endpoint takes it. */
export const networkQuerySchema = z.object({ network: z.string().max(64).optional() });
