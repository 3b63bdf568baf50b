/**
 * Defines what a provider signs. The extension `offer-receipt` of x402: the terms before a payment, and the receipt of a
 * request that was paid and served; both are EIP-712 messages or JSON Web Signatures. The usage receipt of each metered
 * charge, so that a subscriber can prove what it was billed: an EIP-712 message, bound to the chain and the contract, and a
 * compact text for headers and comments.
 */
import * as z from "zod";
import { parseAmount, UINT256_MAX } from "./amounts";
import { aText, fieldsOf, wholeOf } from "./arguments";
import type { TypedData, TypedDataField } from "./eip712";
import { MAX_RESOURCE_BYTES } from "./headers";
import { concatBytes, fromBase64Url, type Hex, hexToBytes, keccak256, textToBytes, toBase64Url, toHex } from "./hex";
import { signature65Schema } from "./schemas";
import type { TurnpikeDeployment } from "./typed-data";

const name = z.string().min(1).max(128);

const url = z.string().min(1).max(MAX_RESOURCE_BYTES);

const seconds = z.number().int().nonnegative();

/** The terms of one entry of `accepts`, as a provider signs them. */
export const offerPayloadSchema = z.object({
  version: z.literal(1),
  resourceUrl: url,
  scheme: name,
  /** CAIP-2 */
  network: name,
  asset: name,
  payTo: name,
  /** base units */
  amount: z.string().min(1).max(80),
  /** unix seconds; absent or 0: no end */
  validUntil: seconds.optional(),
});

export type OfferPayload = z.output<typeof offerPayloadSchema>;

/** What a provider confirms of a request that was paid and served. */
export const receiptPayloadSchema = z.object({
  version: z.literal(1),
  /** CAIP-2 */
  network: name,
  resourceUrl: url,
  payer: name,
  /** unix seconds */
  issuedAt: seconds,
  /** of the transfer; absent or empty: not named */
  transaction: z.string().max(128).optional(),
});

export type ReceiptPayload = z.output<typeof receiptPayloadSchema>;

/** The longest JSON Web Signature that is read. */
const MAX_JWS_LENGTH = 8_192;

const jwsSchema = z.object({ format: z.literal("jws"), signature: z.string().min(5).max(MAX_JWS_LENGTH) });

/** A signed offer as it is sent; a JWS holds its payload inside its signature. */
export const signedOfferSchema = z.discriminatedUnion("format", [
  z.object({ format: z.literal("eip712"), payload: offerPayloadSchema, signature: signature65Schema }),
  jwsSchema,
]);

export type SignedOffer = z.output<typeof signedOfferSchema>;

/** A signed receipt as it is sent; a JWS holds its payload inside its signature. */
export const signedReceiptSchema = z.discriminatedUnion("format", [
  z.object({ format: z.literal("eip712"), payload: receiptPayloadSchema, signature: signature65Schema }),
  jwsSchema,
]);

export type SignedReceipt = z.output<typeof signedReceiptSchema>;

const fields = (declaration: string): readonly TypedDataField[] =>
  declaration.split(",").map((field) => {
    const [type, fieldName] = field.split(" ") as [TypedDataField["type"], string];
    return { name: fieldName, type };
  });

const OFFER = fields(
  "uint256 version,string resourceUrl,string scheme,string network,string asset,string payTo,string amount,uint256 validUntil",
);

const RECEIPT = fields(
  "uint256 version,string network,string resourceUrl,string payer,uint256 issuedAt,string transaction",
);

/** Chain id 1 on every network: the extension signs statements, and never a transaction. */
const domainOf = (statement: "offer" | "receipt") => ({ name: `x402 ${statement}`, version: "1", chainId: 1 });

/** The message that an EIP-712 offer signs; an absent end is signed as 0. */
export function offerTypedData(payload: OfferPayload): TypedData {
  const { version, validUntil = 0, ...terms } = fieldsOf(payload, "payload");
  const message = {
    ...terms,
    version: wholeOf(version, "payload.version"),
    validUntil: wholeOf(validUntil, "payload.validUntil"),
  };
  return { domain: domainOf("offer"), primaryType: "Offer", types: { Offer: OFFER }, message };
}

/** The message that an EIP-712 receipt signs; an absent transaction is signed as the empty text. */
export function receiptTypedData(payload: ReceiptPayload): TypedData {
  const { version, issuedAt, transaction = "", ...facts } = fieldsOf(payload, "payload");
  const message = {
    ...facts,
    version: wholeOf(version, "payload.version"),
    issuedAt: wholeOf(issuedAt, "payload.issuedAt"),
    transaction,
  };
  return { domain: domainOf("receipt"), primaryType: "Receipt", types: { Receipt: RECEIPT }, message };
}

/** One metered charge; amounts in token base units. */
export interface UsageReceipt {
  readonly planId: Hex;
  /** the public name of the subscription */
  readonly idHash: Hex;
  /** of the subscription's record when the cycle was first charged; with `paidThrough` it names the cycle */
  readonly version: number;
  /** unix seconds: the end of the cycle */
  readonly paidThrough: number;
  /** counts the receipts of this cycle from 1, without a gap */
  readonly sequence: number;
  /** {@link requestHashOf} the request that caused the charge */
  readonly requestHash: Hex;
  /** what is counted: 1 to 64 printable ASCII characters */
  readonly unit: string;
  readonly units: bigint;
  /** `AMOUNT/PER`: base units for so many units, such as "3000000/1000000" */
  readonly unitPrice: string;
  /** charged for the units: at most their price, rounded up */
  readonly amount: bigint;
  /** charged in this cycle, with this receipt */
  readonly total: bigint;
}

/** A receipt as it is sent: with the salt of its request hash, which the chain and the auditor need not know. */
export interface SignedUsageReceipt {
  readonly receipt: UsageReceipt;
  /** 16 bytes */
  readonly salt: Hex;
  /** 65 bytes */
  readonly signature: Hex;
}

/** The most receipts that one answer carries: of more, the last ones, whose totals contain the others. */
export const MAX_USAGE_RECEIPTS = 8;

/** Begins the comment line that carries a receipt in an event stream. */
export const USAGE_RECEIPT_COMMENT = "usage-receipt";

const UNIT = /^[\x21-\x7e]([\x20-\x7e]{0,62}[\x21-\x7e])?$/;

/** Returns whether receipts can name this unit. */
export const isUsageUnit = (unit: unknown): unit is string => typeof unit === "string" && UNIT.test(unit);

const FIELDS: readonly TypedDataField[] = [
  { name: "planId", type: "bytes32" },
  { name: "idHash", type: "bytes32" },
  { name: "version", type: "uint16" },
  { name: "paidThrough", type: "uint40" },
  { name: "sequence", type: "uint32" },
  { name: "requestHash", type: "bytes32" },
  { name: "unit", type: "string" },
  { name: "units", type: "uint256" },
  { name: "unitPrice", type: "string" },
  { name: "amount", type: "uint256" },
  { name: "total", type: "uint256" },
];

/** What a provider's receipt key signs. */
export function usageReceiptTypedData(deployment: TurnpikeDeployment, receipt: UsageReceipt): TypedData {
  const { chainId, turnpike } = fieldsOf(deployment, "deployment");
  fieldsOf(receipt, "receipt");
  const domain = { name: "Turnpike Usage Receipt", version: "1", chainId, verifyingContract: turnpike };
  return { domain, primaryType: "UsageReceipt", types: { UsageReceipt: FIELDS }, message: { ...receipt } };
}

/** keccak256(salt ‖ method ‖ " " ‖ resource): shows the request to nobody who does not know it. */
export function requestHashOf(salt: Hex, method: string, resource: string): Hex {
  aText(salt, "salt");
  aText(method, "method");
  aText(resource, "resource");
  return keccak256(concatBytes(hexToBytes(salt), textToBytes(`${method} ${resource}`)));
}

const UNIT_PRICE = /^(0|[1-9]\d{0,77})\/([1-9]\d{0,77})$/;

/** Reads `AMOUNT/PER`. @returns undefined for any other text */
export function parseUnitPrice(text: string): { readonly amount: bigint; readonly per: bigint } | undefined {
  aText(text, "text");
  const [, amount, per] = UNIT_PRICE.exec(text) ?? [];
  if (amount === undefined || per === undefined) return undefined;
  const price = { amount: BigInt(amount), per: BigInt(per) };
  return price.amount <= UINT256_MAX && price.per <= UINT256_MAX ? price : undefined;
}

/** Returns whether a receipt charges more than its own units cost, or more than its own total. */
export function isOverpriced(receipt: UsageReceipt): boolean {
  const { units, unitPrice, amount, total } = fieldsOf(receipt, "receipt");
  const price = parseUnitPrice(unitPrice);
  return price === undefined || amount > (units * price.amount + price.per - 1n) / price.per || amount > total;
}

const FORMAT = "1";

const hexToText = (hex: Hex): string => toBase64Url(hexToBytes(hex));

/** Writes a receipt as one word of at most 600 characters, for headers and comments. */
export function encodeUsageReceipt(signed: SignedUsageReceipt): string {
  const { receipt, salt, signature } = fieldsOf(signed, "signed");
  const { planId, idHash, version, paidThrough, sequence, requestHash, unit, units, unitPrice, amount, total } =
    fieldsOf(receipt, "signed.receipt");
  return [
    ...[FORMAT, hexToText(planId), hexToText(idHash), version, paidThrough, sequence, hexToText(requestHash)],
    ...[toBase64Url(textToBytes(unit)), units, unitPrice, amount, total, hexToText(salt), hexToText(signature)],
  ].join(".");
}

const MAX_TEXT_LENGTH = 1_024;

/** Reads what {@link encodeUsageReceipt} writes; judges no signature. @returns undefined for any other text */
export function parseUsageReceipt(text: string): SignedUsageReceipt | undefined {
  aText(text, "text");
  if (text.length > MAX_TEXT_LENGTH) return undefined;
  const [format, ...parts] = text.split(".");
  if (format !== FORMAT || parts.length !== 13) return undefined;
  const part = (at: number): string => parts[at] ?? "";
  const receipt = {
    planId: bytesAt(part(0), 32),
    idHash: bytesAt(part(1), 32),
    version: numberAt(part(2), 16),
    paidThrough: numberAt(part(3), 40),
    sequence: numberAt(part(4), 32),
    requestHash: bytesAt(part(5), 32),
    unit: unitAt(part(6)),
    units: parseAmount(part(7)),
    unitPrice: parseUnitPrice(part(8)) && part(8),
    amount: parseAmount(part(9)),
    total: parseAmount(part(10)),
  };
  const salt = bytesAt(part(11), 16);
  const signature = bytesAt(part(12), 65);
  const isWhole = Object.values(receipt).every((value) => value !== undefined);
  if (!isWhole || receipt.sequence === 0 || !salt || !signature) return undefined;
  return { receipt: receipt as UsageReceipt, salt, signature };
}

function bytesAt(text: string, length: number): Hex | undefined {
  const bytes = fromBase64Url(text);
  return bytes?.length === length ? toHex(bytes) : undefined;
}

function numberAt(text: string, bits: number): number | undefined {
  const value = parseAmount(text);
  return value !== undefined && value < 1n << BigInt(bits) ? Number(value) : undefined;
}

function unitAt(text: string): string | undefined {
  const bytes = fromBase64Url(text);
  const unit = bytes && new TextDecoder().decode(bytes);
  return isUsageUnit(unit) ? unit : undefined;
}

/** Reads the words of a `USAGE-RECEIPT` header; those that are no receipt are left out. */
export function usageReceiptTexts(header: string | null | undefined): string[] {
  if (header !== undefined && header !== null) aText(header, "header");
  return (header ?? "")
    .split(",")
    .map((text) => text.trim())
    .filter((text) => text !== "")
    .slice(0, 4 * MAX_USAGE_RECEIPTS);
}
