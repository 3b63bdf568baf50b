/** Names the keys of `_meta`, and reads and writes what a tool call carries to pay. */
import {
  decodeJsonHeader,
  encodeJsonHeader,
  type JsonObject,
  MAX_ANSWER_DEPTH,
  MAX_USAGE_RECEIPTS,
} from "../../protocol";
import { isObject } from "../../protocol/arguments";
import { CREDENTIAL_META, reportOfReceipt } from "../../protocol/payment-auth";

/** The keys of `_meta` in tool calls and their results. */
export const MCP_META = {
  /** request: an x402 payload of version 2, or a proof; an object, or base64 of its JSON */
  payment: "x402/payment",
  /** request: an x402 payload of version 1, base64 */
  paymentV1: "x402.payment",
  /** request: the secret id of a subscription; over stdio or https alone */
  subscription: "turnpike/subscription",
  /** request: a credential of MPP */
  credential: CREDENTIAL_META,
  /** result: the challenges of MPP, `{ challenges, problem? }` */
  challenges: "org.paymentauth/payment-required",
  /** result: the receipt of MPP */
  receiptMpp: "org.paymentauth/receipt",
  /** result: the PaymentRequired object, where some stock clients look for it */
  error: "x402/error",
  /** result: the body of a 402 as the gates send it over HTTP: plans, memos, the Facilitator */
  quote: "turnpike/payment-required",
  /** result: why a call was refused that no price would help: error, message, retryable, reason, retryAfterSec */
  refusal: "turnpike/error",
  /** result: the receipt, `{ success, transaction, network, payer }`, networks as CAIP-2 */
  receipt: "x402/payment-response",
  /** result: the same with the network's name of version 1 */
  receiptV1: "x402.payment-response",
  /** result: true where this payment has bought this result before */
  replayed: "turnpike/replayed",
  /** result: the refund of a failed call */
  refund: "turnpike/refund",
  /** result: usage receipts of its metered charges, a list of texts */
  usageReceipts: "turnpike/usage-receipts",
} as const;

/** `_meta` of a request or a result. */
export type Meta = Readonly<Record<string, unknown>>;

const CREDENTIALS: readonly string[] = [
  MCP_META.payment,
  MCP_META.paymentV1,
  MCP_META.credential,
  MCP_META.subscription,
];

/** Returns the first key of `_meta` that pays; undefined where none does. */
export const credentialKeyIn = (meta: Meta | undefined): string | undefined =>
  CREDENTIALS.find((key) => meta?.[key] !== undefined);

/** Returns `_meta` without what pays: for handlers, logs and everything else that has no use for a secret. */
export function withoutCredentials<T extends Meta>(meta: T): T {
  return Object.fromEntries(Object.entries(meta).filter(([key]) => !CREDENTIALS.includes(key))) as T;
}

/** Returns the usage receipts of a result; what is no text is left out. */
export function usageReceiptsIn(meta: Meta | undefined): readonly string[] {
  const listed = meta?.[MCP_META.usageReceipts];
  if (!Array.isArray(listed)) return [];
  return listed.filter((one) => typeof one === "string").slice(0, 4 * MAX_USAGE_RECEIPTS);
}

/** A payment of a tool call in header form, base64 of JSON; not read any further. */
export interface CallPayment {
  readonly text: string;
  /** A proof travels as version 1 does over HTTP. */
  readonly version: 1 | 2;
}

/**
 * Reads the payments of a call, in every form that clients send: at most one under each key.
 * @returns more than one where the call is ambiguous. What is no payment at all is returned as malformed text
 */
export function paymentsIn(meta: Meta | undefined): readonly CallPayment[] {
  const payments: CallPayment[] = [];
  for (const [key, version] of [
    [MCP_META.payment, 2],
    [MCP_META.paymentV1, 1],
  ] as const) {
    const value = meta?.[key];
    if (value === undefined) continue;
    const text = typeof value === "string" ? value : encodeJsonHeader(value);
    payments.push({ text, version: versionOf(text) ?? version });
  }
  return payments;
}

function versionOf(text: string): CallPayment["version"] | undefined {
  const payload = decodeJsonHeader(text);
  if (!payload) return undefined;
  if ("version" in payload) return 1;
  return payload.x402Version === 1 ? 1 : payload.x402Version === 2 ? 2 : undefined;
}

/** Of arguments, those looked at. */
const MAX_ARGUMENTS = 64;

/** Returns the name of an argument, or of a member of one, that holds a payment; undefined where none does. */
export function paymentAmong(args: unknown, depth = 2): string | undefined {
  if (depth === 0 || !isObject(args)) return undefined;
  for (const [name, value] of Object.entries(args).slice(0, MAX_ARGUMENTS)) {
    if (isPayment(typeof value === "string" ? decodeJsonHeader(value) : value)) return name;
    const inside = paymentAmong(value, depth - 1);
    if (inside !== undefined) return `${name}.${inside}`;
  }
  return undefined;
}

const isPayment = (value: unknown): boolean =>
  isObject(value) &&
  (("x402Version" in value && isObject(value.payload)) ||
    ("payer" in value && "memo" in value && "signature" in value));

/** Returns `_meta` that pays by a payload of version 2, or by a proof: as an object, which the specification asks for. */
export const paymentMeta = (payload: JsonObject): Meta => ({ [MCP_META.payment]: payload });

/** Returns `_meta` that shows a subscription. @param id the secret id */
export const subscriptionMeta = (id: string): Meta => ({ [MCP_META.subscription]: id });

/** Returns the receipt of a result, in whichever form a server writes it; undefined where it has none. */
export function receiptIn(meta: Meta | undefined): JsonObject | undefined {
  const ofX402 = objectOf(meta?.[MCP_META.receipt]) ?? objectOf(meta?.[MCP_META.receiptV1]);
  const ofMpp = objectOf(meta?.[MCP_META.receiptMpp]);
  return ofX402 ?? (ofMpp && reportOfReceipt(ofMpp));
}

/** Returns an object of a result, also where it is base64 of JSON. */
export function objectOf(value: unknown): JsonObject | undefined {
  if (typeof value === "string") return decodeJsonHeader(value, value.length, MAX_ANSWER_DEPTH);
  return isObject(value) ? value : undefined;
}
