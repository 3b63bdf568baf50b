/** A resource server like stock x402 packages: verifies the payload, serves, settles, sends the receipt in a header. */
import {
  type Address,
  caip2Of,
  decodeJsonHeader,
  encodeJsonHeader,
  type Hex,
  keccakText,
  type OfferPayload,
  paymentIdOf,
  type ReceiptPayload,
  recoverSigner,
  transferTypedData,
  typedDataDigest,
} from "turnpike/protocol";
import { type Answer, type Seen, type StandIn, serve } from "./servers";
import { addressOf, CHAIN_ID, type Chain, NETWORK, TOKEN, TOKEN_DOMAIN } from "./world";

/**
 * `granted`: the gate reports that the payment bought another request. `used`, `refunded`: that it is used or refunded,
 * and nothing has settled. `settle_then_402`: it asks for payment again. Of the other statuses: with the receipt beside it.
 */
export type StandardStep =
  | `settle_then_${400 | 402 | 403 | 404 | 410}`
  | "settle_then_drop"
  | "settle_then_502"
  | "502"
  | "402"
  | "granted"
  | "used"
  | "refunded";

export interface StandardOptions {
  readonly version: 1 | 2;
  readonly steps?: StandardStep[];
  readonly maxTimeoutSeconds?: number;
  /** serves a settled payload every time it is presented, like a gate that redeems or replays */
  readonly redeems?: boolean;
  readonly lie?: { readonly asset?: string; readonly resource?: string };
  /** fields of its entries and of its 402 in place of its own; undefined leaves a field out */
  readonly terms?: { readonly entry?: object; readonly required?: object };
  /** what it signs, in version 2; with the schemas that stock servers send */
  readonly signs?: Statements;
}

export interface Statements {
  offers?(terms: Required<OfferPayload>): readonly unknown[];
  receipt?(facts: Required<ReceiptPayload>): unknown;
}

/** Nested as deeply as the stock schema of offers. */
const DEEP_SCHEMA = JSON.parse(`${'{"properties":'.repeat(10)}{}${"}".repeat(10)}`);

/** The extension offer-receipt with these statements. */
export const extensionOf = (info: object) => ({ "offer-receipt": { info, schema: DEEP_SCHEMA } });

export interface StandardServer extends StandIn {
  readonly steps: StandardStep[];
  readonly payloads: Set<string>;
  /** seconds that each authorization stayed usable */
  readonly windows: number[];
}

type Authorization = Record<"from" | "to" | "value" | "validAfter" | "validBefore" | "nonce", string>;

export interface StandardPayload {
  readonly x402Version: number;
  readonly payload: { readonly signature: Hex; readonly authorization: Authorization };
}

/** Verifies and settles what a client signed. @returns the transaction; undefined where it is refused */
export function settleStandard(
  chain: Chain,
  { signature, authorization: a }: StandardPayload["payload"],
  { amount, redeems }: { readonly amount: string; readonly redeems: boolean },
): Hex | undefined {
  const transfer = {
    from: a.from as Address,
    to: a.to as Address,
    value: BigInt(a.value),
    validAfter: BigInt(a.validAfter),
    validBefore: BigInt(a.validBefore),
    nonce: a.nonce as Hex,
  };
  const digest = typedDataDigest(transferTypedData({ chainId: CHAIN_ID, token: TOKEN, ...TOKEN_DOMAIN }, transfer));
  if (recoverSigner(digest, signature) !== transfer.from || a.value !== amount) return undefined;
  const id = paymentIdOf({ chainId: CHAIN_ID, token: TOKEN, payer: transfer.from, nonce: transfer.nonce });
  if (chain.find(id)) return redeems ? keccakText(id) : undefined;
  if (Number(a.validBefore) <= chain.nowSec) return undefined;
  chain.move({ id, from: transfer.from, to: transfer.to, value: transfer.value });
  return keccakText(id);
}

export async function startStandardServer(chain: Chain, options: StandardOptions): Promise<StandardServer> {
  const { version, steps = [], maxTimeoutSeconds = 60, redeems = false, lie = {}, terms: own = {}, signs } = options;
  const payloads = new Set<string>();
  const windows: number[] = [];
  let base = "";
  const network = version === 1 ? NETWORK : caip2Of(CHAIN_ID);

  function quote(request: Seen, error = "payment required"): Answer {
    const resource = lie.resource ?? `${base}${request.url.split("?")[0]}`;
    const common = {
      scheme: "exact",
      network,
      payTo: addressOf("provider"),
      asset: lie.asset ?? TOKEN,
      maxTimeoutSeconds,
      extra: TOKEN_DOMAIN,
    };
    if (version === 1) {
      const entry = { ...common, maxAmountRequired: "10000", resource, description: "", mimeType: "", ...own.entry };
      return { status: 402, json: { x402Version: 1, error, accepts: [entry], ...own.required } };
    }
    const { maxTimeoutSeconds: _, extra: __, ...terms } = { ...common, amount: "10000" };
    const offered = { version: 1 as const, resourceUrl: resource, ...terms, validUntil: chain.nowSec + 300 };
    const offers = signs?.offers?.(offered);
    const extensions = offers && { extensions: extensionOf({ offers }) };
    const accepts = [{ ...common, amount: "10000", ...own.entry }];
    const required = { x402Version: 2, error, resource: { url: resource }, accepts, ...extensions, ...own.required };
    return { status: 402, json: {}, headers: { "PAYMENT-REQUIRED": encodeJsonHeader(required) } };
  }

  function settle(header: string): Hex | undefined {
    const decoded = decodeJsonHeader(header) as StandardPayload | undefined;
    if (decoded?.x402Version !== version) return undefined;
    windows.push(Number(decoded.payload.authorization.validBefore) - chain.nowSec);
    return settleStandard(chain, decoded.payload, { amount: "10000", redeems });
  }

  const server = await serve((request) => {
    const header = request.headers[version === 1 ? "x-payment" : "payment-signature"];
    if (typeof header !== "string") return quote(request);
    payloads.add(header);
    const step = steps.shift();
    if (step === "502") return { status: 502, json: {} };
    if (step === "402") return quote(request, "invalid_payload");
    if (step === "granted") {
      return { status: 402, json: { error: "InvalidPaymentProof", reason: "payment_already_granted" } };
    }
    if (step === "used") return { status: 402, json: { error: "PaymentAlreadyUsed", reason: "already_used" } };
    if (step === "refunded") return { status: 500, json: {}, headers: { "payment-refund": "e30=" } };
    const transaction = settle(header);
    if (step === "settle_then_502") return { status: 502, json: {} };
    if (step === "settle_then_drop") return { status: 0, drop: true };
    if (step === "settle_then_402") return quote(request, "settlement_timeout");
    if (!transaction) return quote(request, "invalid_payload");
    const name = version === 1 ? "X-PAYMENT-RESPONSE" : "PAYMENT-RESPONSE";
    const paid = { version: 1 as const, network, payer: addressOf("payer"), transaction };
    const signed = signs?.receipt?.({ ...paid, resourceUrl: `${base}${request.url}`, issuedAt: chain.nowSec });
    const extensions = signed !== undefined ? { extensions: extensionOf({ receipt: signed }) } : {};
    const receipt = { success: true, transaction, network, payer: addressOf("payer"), ...extensions };
    const status = step ? Number(step.slice(-3)) : 200;
    return { status, json: { weather: "fine" }, headers: { [name]: encodeJsonHeader(receipt) } };
  });
  base = server.url;
  return Object.assign(server, { payloads, windows, steps });
}
