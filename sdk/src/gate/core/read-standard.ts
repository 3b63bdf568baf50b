/** Reads standard x402 payloads, versions 1 and 2: what they pay, by which option, and how its money moves. */
import type * as z from "zod";
import {
  payloadPermit2Schema,
  payloadUptoSchema,
  payloadV2Schema,
  type requirementsUptoSchema,
  type requirementsV2Schema,
  type X402RequestWire,
} from "../../facilitator/payments";
import {
  type Address,
  caip2Of,
  checksum,
  findNetwork,
  type Hex,
  InvalidPaymentProof,
  isEip3009,
  isMemoGenuine,
  isPermit2,
  type JsonObject,
  type Permit2Authorization,
  type Permit2Method,
  parseMemo,
  paymentIdentifierOf,
  paymentIdOf,
  permit2AuthorizationOf,
  permit2NonceOf,
  permit2PaymentIdOf,
  permit2TypedData,
  proxyOf,
  transferTypedData,
  typedDataDigest,
  Unavailable,
  x402V1PayloadSchema,
} from "../../protocol";
import type { PaymentCase } from "./claim-payment";
import { MAX_TIMEOUT_SEC, soldByEip3009 } from "./quote";
import type { TokenTerms } from "./terms";

/** The terms that a payer signed. */
export interface Authorization {
  readonly from: Address;
  readonly to: Address;
  /** base units; of the scheme `upto`: the maximum */
  readonly value: bigint;
  /** unix seconds, exclusive */
  readonly validAfter: bigint;
  /** unix seconds, exclusive */
  readonly validBefore: bigint;
  readonly nonce: Hex;
}

/** One payment as a payload presents it: its facts and its signature are not checked yet. */
export interface PresentedPayment {
  /** the client's own idempotency key, which names this payment and no other */
  readonly identifier?: string;
  /** its quote has expired */
  readonly isLate?: boolean;
  /** quoted to settle after the handler: its payer did not agree to be charged for a failure */
  readonly isQuotedAfter?: boolean;
  readonly authorization: Authorization;
  /** of the scheme `upto`: the only account that may settle it */
  readonly settler?: Address | undefined;
  /** how it moves over Permit2; absent: by the token's EIP-3009 */
  readonly transfer?: Permit2Method;
  readonly paymentId: Hex;
  /** what the payer signed, of an ordinary account */
  readonly digest: Hex;
  readonly signature: Hex;
  readonly token: TokenTerms;
  readonly settlement: X402RequestWire;
}

/** Why a payload is refused. */
export type Fault =
  | "payment_identifier"
  | "network"
  | "transfer_method"
  | "spender"
  | "settler"
  | "resource"
  | "terms"
  | "memo"
  | "memo_expired"
  | "flow"
  | "window"
  | "signature";

export const FAULTS: Readonly<Record<Fault, string>> = {
  payment_identifier: "A payment-identifier has 16 to 128 letters, digits, hyphens or underscores.",
  network: "The x402 payload is of another network.",
  transfer_method: "The x402 payload moves its money in another way than the quoted option names.",
  spender: "The x402 payload permits another spender than the proxy of its scheme.",
  settler: "The x402 payload names a facilitator that is no key of this provider's Facilitator: take a fresh quote.",
  resource:
    "The x402 payload names another resource.url than the one requested; leave it out, or repeat the quoted one.",
  terms: "The x402 payload pays none of the current options: amount and payee must be exactly as quoted.",
  memo: "The x402 payload must repeat a quoted option with its extra.memo, made for this method and resource.",
  memo_expired: "The quote has expired. Pay a fresh one unless this payment has moved money.",
  flow: "The quoted option settles after the request is served, and this resource now settles before: take a fresh quote.",
  window: `The authorization must be valid now and end within ${MAX_TIMEOUT_SEC} s.`,
  signature: "The authorization's signature is not its payer's.",
};

/** @throws InvalidPaymentProof that names the first wrong field */
function parsed<T>(schema: z.ZodType<T>, payload: JsonObject): T {
  const read = schema.safeParse(payload);
  if (read.success) return read.data;
  const field = read.error.issues[0]?.path.join(".") || "payload";
  throw new InvalidPaymentProof(`The x402 payload is malformed: field ${field} is missing or wrong`, {
    reason: "malformed",
  });
}

type SignedFacts = Pick<PresentedPayment, "authorization" | "paymentId" | "digest" | "settler" | "transfer">;

function eip3009Facts(
  authorization: Authorization,
  { address: token, name, version }: TokenTerms,
  { context }: PaymentCase,
): SignedFacts {
  const { chainId } = context.settings.network;
  const { from: payer, nonce } = authorization;
  return {
    authorization,
    paymentId: paymentIdOf({ chainId, token, payer, nonce }),
    digest: typedDataDigest(transferTypedData({ chainId, token, name, version }, authorization)),
  };
}

function permit2Facts(signed: Permit2Authorization, { context }: PaymentCase): SignedFacts {
  const { chainId } = context.settings.network;
  const { from, to, token, amount: value, deadline, validAfter, facilitator } = signed;
  const nonce = permit2NonceOf(signed.nonce);
  return {
    // Permit2 includes its deadline.
    authorization: { from, to, value, validAfter, validBefore: deadline + 1n, nonce },
    paymentId: permit2PaymentIdOf({ chainId, token, payer: from, nonce }),
    digest: typedDataDigest(permit2TypedData(chainId, signed)),
    settler: facilitator,
    transfer: transferOf(signed),
  };
}

/** Reads a version 1 payload. It echoes nothing, so it must pay one of the current options exactly. */
export async function purchaseOfV1(payload: JsonObject, at: PaymentCase): Promise<PresentedPayment | Fault> {
  const { network, payload: signed } = parsed(x402V1PayloadSchema, payload);
  const { settings } = at.context;
  if (findNetwork(network, settings.extraNetworks)?.chainId !== settings.network.chainId) return "network";
  const { authorization, signature } = signed;
  const now = await at.route.offers(at.request);
  if (now.outage) throw now.outage;
  const offers = soldByEip3009(now.offers, at.route.presentation).filter(({ context }) => context === at.context);
  const offer = offers.find(({ payTo, amount }) => payTo === authorization.to && amount === authorization.value);
  if (!offer) {
    // What it pays may be left out of the options now: that is no reason to refuse it.
    const outage = now.outages.get(at.context);
    if (outage) throw outage;
    return "terms";
  }
  const { token, payTo, amount } = offer;
  const paymentPayload = payload as unknown as Extract<
    X402RequestWire,
    { paymentRequirements: { maxAmountRequired: string } }
  >["paymentPayload"];
  const paymentRequirements = {
    scheme: "exact" as const,
    network,
    maxAmountRequired: amount.toString(),
    resource: at.resource,
    description: at.route.presentation.description,
    mimeType: at.route.presentation.mimeType,
    payTo,
    maxTimeoutSeconds: MAX_TIMEOUT_SEC,
    asset: token.address,
    extra: { name: token.name, version: token.version },
  };
  const settlement = { paymentPayload, paymentRequirements };
  return { ...eip3009Facts(authorization, token, at), signature, token, settlement };
}

/**
 * Reads a version 2 payload. It echoes the option, whose memo proves the quote: quoted terms hold until they expire.
 */
export function purchaseOfV2(payload: JsonObject, at: PaymentCase): PresentedPayment | Fault {
  const option = optionIn(payload);
  if (typeof option === "string") return option;
  const { accepted, resource, signature, payTo, max, permit2 } = option;
  const { settings, terms, time } = at.context;
  const { amount, extra } = accepted;
  if (accepted.network !== caip2Of(settings.network.chainId)) return "network";
  if (resource && resource.url !== at.resource) return "resource";
  if (payTo !== accepted.payTo || max !== amount) return "terms";
  const memo = parseMemo(extra?.memo);
  const facts = {
    ...{ method: at.request.method, resource: at.resource, amount, token: accepted.asset, payTo },
    network: settings.network.name,
    ...(at.bodyHash !== undefined && { bodyHash: at.bodyHash }),
    ...(permit2 && { transfer: transferOf(permit2) }),
  };
  if (!memo || !isMemoGenuine(memo, facts, settings.memoKeys)) return "memo";
  const token = terms.token(checksum(accepted.asset));
  if (!token) {
    // Read for the next attempt: payloads alone must end the outage too. The terms log what fails.
    void terms.load([], true).catch(() => undefined);
    throw new Unavailable("The token's terms could not be read from the chain yet.", { retryAfterSec: 2 });
  }
  const settlement = { paymentPayload: payload, paymentRequirements: payload.accepted } as unknown as X402RequestWire;
  const identifier = paymentIdentifierOf(payload);
  if (identifier.kind === "malformed") return "payment_identifier";
  const named = identifier.kind === "given" ? { identifier: identifier.id } : {};
  const isLate = time.nowSec() >= memo.expiresAtSec;
  const isQuotedAfter = extra?.paymentFlow !== "upfront";
  const signed = permit2 ? permit2Facts(permit2, at) : eip3009Facts(option.authorization, token, at);
  return { ...signed, signature, token, settlement, isLate, isQuotedAfter, ...named };
}

type Option = {
  readonly accepted: z.output<typeof requirementsV2Schema> | z.output<typeof requirementsUptoSchema>;
  readonly resource: { readonly url: string } | null | undefined;
  readonly signature: Hex;
  /** as signed */
  readonly payTo: Address;
  /** as signed: the amount, or the most of it */
  readonly max: bigint;
} & (
  | { readonly permit2: Permit2Authorization; readonly authorization?: undefined }
  | { readonly permit2?: undefined; readonly authorization: Authorization }
);

/** Goes by what was signed, as the Facilitator does; the option has to name the same way of moving money. */
function optionIn(payload: JsonObject): Option | Fault {
  if (!isOverPermit2(payload.payload)) {
    const { accepted, resource, payload: signed } = parsed(payloadV2Schema, payload);
    if (!isEip3009(accepted.extra)) return "transfer_method";
    const { authorization, signature } = signed;
    const { to: payTo, value: max } = authorization;
    return { accepted, resource, signature, payTo, max, authorization };
  }
  const isUpto = isObject(payload.accepted) && payload.accepted.scheme === "upto";
  const {
    accepted,
    resource,
    payload: signed,
  } = isUpto ? parsed(payloadUptoSchema, payload) : parsed(payloadPermit2Schema, payload);
  if (!isPermit2(accepted.extra)) return "transfer_method";
  const permit2 = permit2AuthorizationOf(signed);
  const { spender, token, to: payTo, amount: max } = permit2;
  if (spender !== proxyOf(transferOf(permit2))) return "spender";
  if (token !== accepted.asset) return "terms";
  return { accepted, resource, signature: signed.signature, payTo, max, permit2 };
}

/** Returns how a payment over Permit2 moves, by the witness that its payer signed. */
const transferOf = ({ facilitator }: Permit2Authorization): Permit2Method => (facilitator ? "upto" : "permit2");

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null;

const isOverPermit2 = (signed: unknown): boolean =>
  isObject(signed) && "permit2Authorization" in signed && !("authorization" in signed);
