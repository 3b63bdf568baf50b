/**
 * Judges what a provider has signed about a payment (the extension `offer-receipt` of x402 version 2): whether an offer
 * is of the option that is paid, whether a receipt is of the payment that was made, and whether the signer counts.
 */
import {
  caip2Of,
  EXTENSION,
  type JsonObject,
  offerPayloadSchema,
  offerTypedData,
  type ReceiptPayload,
  receiptPayloadSchema,
  receiptTypedData,
  recoverSigner,
  type SignedReceipt,
  signedOfferSchema,
  signedReceiptSchema,
  type TypedData,
  typedDataDigest,
} from "../../protocol";
import type { AgentContext } from "../core/context";
import type { JudgedOffer, JudgedReceipt, StatementFault } from "../ledger/evidence";
import type { PaymentEntry } from "../ledger/ledger-store";
import type { PurchaseTarget } from "./channel";
import { verifyJws } from "./json-web-signature";
import type { PaymentOption } from "./quote";

/** How much clocks may differ, seconds. */
const SLACK_SEC = 60;

const MAX_OFFERS = 16;

/** Reads the signed offers of a PaymentRequired object, and verifies their signatures alone; malformed ones are left out. */
export async function signedOffersIn(required: JsonObject | undefined): Promise<readonly JudgedOffer[]> {
  const offers = infoOf(required)?.offers;
  const read: JudgedOffer[] = [];
  for (const raw of Array.isArray(offers) ? offers.slice(0, MAX_OFFERS) : []) {
    const parsed = signedOfferSchema.safeParse(raw);
    if (!parsed.success) continue;
    const signed = parsed.data;
    const found =
      signed.format === "jws"
        ? await readJws(signed.signature, offerPayloadSchema)
        : ofTypedData(signed, offerTypedData);
    read.push({ signed, ...found });
  }
  return read;
}

/** Reads the signed receipt of a settlement report, unverified; undefined where none came. */
export function signedReceiptIn(report: JsonObject | undefined): SignedReceipt | "malformed" | undefined {
  const raw = infoOf(report)?.receipt;
  if (raw === undefined) return undefined;
  const receipt = signedReceiptSchema.safeParse(raw);
  return receipt.success ? receipt.data : "malformed";
}

function infoOf(body: JsonObject | undefined): Readonly<Record<string, unknown>> | undefined {
  const extension = (body?.extensions as Record<string, { info?: unknown } | undefined> | undefined)?.[
    EXTENSION.offerReceipt
  ];
  const info = extension?.info;
  return typeof info === "object" && info !== null ? (info as Record<string, unknown>) : undefined;
}

export interface OfferCase {
  readonly option: PaymentOption;
  readonly target: PurchaseTarget;
}

/** Returns the signed offer of an option: one without a fault and by a signer that counts, where there is one. */
export function offerFor(
  context: AgentContext,
  offers: readonly JudgedOffer[] | undefined,
  at: OfferCase,
): JudgedOffer | undefined {
  const judged = (offers ?? []).map((offer) => judgeOffer(context, at, offer));
  const sound = judged.filter(({ fault }) => fault === undefined);
  return sound.find(({ trustedBy }) => trustedBy !== undefined) ?? sound[0] ?? judged[0];
}

function judgeOffer(context: AgentContext, { option, target }: OfferCase, read: JudgedOffer): JudgedOffer {
  const { signed, payload, signer, fault } = read;
  const { chainId, token, payTo, amount, method } = option;
  const nowSec = context.effects.clock.nowSec();
  const contradiction =
    payload &&
    firstOf<StatementFault>([
      ["resource", !target.names.includes(payload.resourceUrl)],
      ["scheme", payload.scheme !== (method === "upto" ? "upto" : "exact")],
      ["network", payload.network !== caip2Of(chainId)],
      ["token", !isSame(payload.asset, token)],
      ["payTo", !isSame(payload.payTo, payTo)],
      ["amount", payload.amount !== amount.toString()],
      ["time", Boolean(payload.validUntil) && (payload.validUntil ?? 0) + SLACK_SEC < nowSec],
    ]);
  return { signed, ...judgementOf(context, { payload, signer, fault }, { payTo, target }, contradiction) };
}

export interface ReceiptCase {
  readonly entry: PaymentEntry;
  readonly target: PurchaseTarget;
  /** The agent knows that this one paid, where it knows any. */
  readonly transaction: string | undefined;
  readonly payments: readonly PaymentEntry[];
}

/** Judges the receipt of a paid answer. */
export async function judgeReceipt(
  context: AgentContext,
  signed: SignedReceipt | "malformed",
  at: ReceiptCase,
): Promise<JudgedReceipt> {
  if (signed === "malformed") return { fault: "malformed" };
  const found =
    signed.format === "jws"
      ? await readJws(signed.signature, receiptPayloadSchema)
      : ofTypedData(signed, receiptTypedData);
  const { payload } = found;
  const { chainId, payer, payTo, atSec, id } = at.entry;
  const nowSec = context.effects.clock.nowSec();
  const { target, transaction } = at;
  const isOfAnother = at.payments.some(
    (other) => other.id !== id && isSameReceipt(other.signedReceipt, { signed, ...found }),
  );
  const contradiction =
    payload &&
    firstOf<StatementFault>([
      ["resource", !target.names.includes(payload.resourceUrl)],
      ["network", payload.network !== caip2Of(chainId)],
      ["payer", !isSame(payload.payer, payer)],
      ["transaction", Boolean(payload.transaction) && !!transaction && !isSame(payload.transaction ?? "", transaction)],
      ["replayed", isOfAnother],
      ["time", payload.issuedAt + SLACK_SEC < atSec || payload.issuedAt > nowSec + SLACK_SEC],
    ]);
  return { signed, ...judgementOf(context, found, { payTo, target }, contradiction) };
}

/** One signature can be written in several ways, so the same statement by the same signer is the same receipt. */
function isSameReceipt(known: JudgedReceipt | undefined, { signed, payload, signer }: JudgedReceipt): boolean {
  if (!known?.signed || !signed) return false;
  if (known.signed.signature === signed.signature) return true;
  if (!known.payload || !payload || !known.signer || !signer || !isSame(known.signer, signer)) return false;
  return digestOf(known.payload) === digestOf(payload);
}

const digestOf = (payload: ReceiptPayload): string => typedDataDigest(receiptTypedData(payload));

/** Returns why a statement is not the evidence that `policy.requireReceipt` asks for; undefined where it is. */
export function gapOf(judged: JudgedOffer | JudgedReceipt | undefined): string | undefined {
  if (!judged) return "is missing";
  const { fault, trustedBy, signer } = judged;
  if (fault !== undefined) return `is no evidence of this payment (${fault})`;
  if (trustedBy === undefined) return `is signed by ${signer}, which is neither the payee nor in policy.receiptSigners`;
  return undefined;
}

interface Found<P> {
  readonly payload?: P | undefined;
  readonly signer?: string | undefined;
  readonly fault?: StatementFault | undefined;
}

function ofTypedData<P>(
  { payload, signature }: { readonly payload: P; readonly signature: string },
  typedData: (payload: P) => TypedData,
): Found<P> {
  const signer = recoverSigner(typedDataDigest(typedData(payload)), signature);
  return { payload, signer, fault: signer === undefined ? "signature" : undefined };
}

async function readJws<P>(
  compact: string,
  schema: { safeParse(value: unknown): { success: true; data: P } | { success: false } },
): Promise<Found<P>> {
  const verdict = await verifyJws(compact);
  if (verdict.kind === "faulty") return { payload: undefined, signer: undefined, fault: verdict.fault };
  const parsed = schema.safeParse(verdict.payload);
  if (!parsed.success) return { payload: undefined, signer: verdict.keyId, fault: "malformed" };
  return { payload: parsed.data, signer: verdict.keyId, fault: undefined };
}

function judgementOf<P>(
  { policy }: AgentContext,
  { payload, signer, fault }: Found<P>,
  { payTo, target }: { readonly payTo: string; readonly target: PurchaseTarget },
  contradiction: StatementFault | undefined,
): Pick<JudgedOffer, "signer" | "trustedBy" | "fault"> & Pick<Found<P>, "payload"> {
  const isNamed = signer !== undefined && policy.receiptSigners(target.resource).some((named) => isSame(named, signer));
  const isPayee = signer !== undefined && isSame(signer, payTo);
  return {
    payload,
    signer,
    trustedBy: isPayee ? "payTo" : isNamed ? "policy" : undefined,
    fault: fault ?? contradiction,
  };
}

const firstOf = <T>(checks: readonly (readonly [fault: T, isFaulty: boolean])[]): T | undefined =>
  checks.find(([, isFaulty]) => isFaulty)?.[0];

/** Addresses are compared without their checksum; a DID of a key has no other form. */
const isSame = (a: string, b: string): boolean => a === b || (/^0x/i.test(a) && a.toLowerCase() === b.toLowerCase());
