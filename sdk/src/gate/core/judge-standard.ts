/** Judges standard x402 payloads, versions 1 and 2: the gate checks what was signed, and the Facilitator settles it. */
import { hasCode } from "../../chain/rpc";
import { payloadV2Schema, type X402RequestWire } from "../../facilitator/payments";
import {
  type Address,
  caip2Of,
  checksum,
  findNetwork,
  type Hex,
  InvalidPaymentProof,
  isEip3009,
  isMemoGenuine,
  type JsonObject,
  keccakText,
  parseMemo,
  paymentIdentifierOf,
  paymentIdOf,
  SIGNATURE_65,
  TurnpikeError,
  transferTypedData,
  typedDataDigest,
  Unavailable,
  x402V1PayloadSchema,
} from "../../protocol";
import { DAY_SEC } from "../../protocol/time";
import { holdClaim } from "../claims/held-claim";
import type { ClaimStore } from "../claims/rules";
import { secretOfPayload } from "../replay/seal";
import { claimAndConfirm, invalid, type PaymentCase, type PaymentVerdict, verdictOfLate } from "./claim-payment";
import type { GateContext } from "./context";
import type { PaymentCredential } from "./credentials";
import { deductsNothing, type OneTimePayment } from "./payment";
import { flowOfPayment } from "./payment-flow";
import { MAX_TIMEOUT_SEC, soldSingly, usableKeyOf } from "./quote";
import { recoverSigner } from "./recover-signer";
import { deferSettlement } from "./settle-after";
import { settleStandard } from "./settle-standard";
import type { TokenTerms } from "./terms";

interface Authorization {
  readonly from: Address;
  readonly to: Address;
  readonly value: bigint;
  readonly validAfter: bigint;
  readonly validBefore: bigint;
  readonly nonce: Hex;
}

interface StandardPurchase {
  /** the client's own idempotency key, which names this payment and no other */
  readonly identifier?: string;
  /** its quote has expired */
  readonly isLate?: boolean;
  /** quoted to settle after the handler: its payer did not agree to be charged for a failure */
  readonly isQuotedAfter?: boolean;
  readonly authorization: Authorization;
  readonly signature: Hex;
  readonly token: TokenTerms;
  readonly settlement: X402RequestWire;
}

/** How much clocks may differ. */
const SLACK_SEC = 60;

/** An authorization that ends sooner cannot settle in time. */
const MARGIN_SEC = 6;

export async function judgeStandard(
  credential: Extract<PaymentCredential, { kind: "x402-v1" | "x402-v2" }>,
  at: PaymentCase,
): Promise<PaymentVerdict> {
  const { payload } = credential;
  const found = credential.kind === "x402-v1" ? await purchaseOfV1(payload, at) : purchaseOfV2(payload, at);
  if (typeof found === "string") return invalid(found, MESSAGES[found]);
  const { authorization, token, settlement, identifier } = found;
  const { settings, time } = at.context;
  const { chainId } = settings.network;
  const nowSec = time.nowSec();
  const { from, to, value, nonce, validBefore } = authorization;
  const paymentId = paymentIdOf({ chainId, token: token.address, payer: from, nonce });
  const payment: OneTimePayment = {
    kind: "one-time",
    dialect: "x402",
    payer: from,
    payTo: to,
    amount: value,
    token: token.address,
    network: settings.network.name,
    paymentId,
    deduct: deductsNothing,
  };
  const secret = secretOfPayload(identifier, usableKeyOf(at.request));
  const late = found.isLate ? "memo_expired" : faultOfWindow(authorization, nowSec);
  // Too late to pay with, but it may have paid already: then a fresh quote would be paid in addition.
  const used = late && (await verdictOfLate(at, { payment, secret }));
  if (used) return used;
  const fault = await faultOfSignature(found, at.context);
  if (fault) return invalid(fault, MESSAGES[fault]);
  if (late && !(await isUnderWay(at.context, paymentId))) return invalid(late, MESSAGES[late]);
  const keepUntilSec = Number(validBefore) + DAY_SEC;
  const purchase = { payment, nonce, settlement, signature: found.signature, secret, keepUntilSec, nowSec };
  return claimAndConfirm(at, {
    payment,
    secret,
    keepUntilSec,
    nowSec,
    async defer(claim) {
      const { claims: store } = at.context;
      if (identifier) await bindIdentifier({ store, id: identifier, payer: from, paymentId, keepUntilSec, nowSec });
      const flow = await flowOfPayment(at.context, at.route.settle);
      if (flow === "authorization") return deferSettlement({ at, purchase, claim, isLate: late !== undefined });
      if (!found.isQuotedAfter || late) return undefined;
      await claim.settle("withdraw");
      return invalid("flow", MESSAGES.flow);
    },
    confirm: () => settleStandard(at, purchase),
  });
}

type Fault =
  | "payment_identifier"
  | "network"
  | "transfer_method"
  | "resource"
  | "terms"
  | "memo"
  | "memo_expired"
  | "flow"
  | "window"
  | "signature";

const MESSAGES: Readonly<Record<Fault, string>> = {
  payment_identifier: "A payment-identifier has 16 to 128 letters, digits, hyphens or underscores.",
  network: "The x402 payload is of another network.",
  transfer_method: "The x402 payload names another transfer method than eip3009, the only one that is settled here.",
  resource:
    "The x402 payload names another resource.url than the one requested; leave it out, or repeat the quoted one.",
  terms: "The x402 payload pays none of the current options: amount and payee must be exactly as quoted.",
  memo: "The x402 payload must repeat a quoted option with its extra.memo, made for this method and resource.",
  memo_expired: "The quote has expired. Pay a fresh one unless this payment has moved money.",
  flow: "The quoted option settles after the request is served, and this resource now settles before: take a fresh quote.",
  window: `The authorization must be valid now and end within ${MAX_TIMEOUT_SEC} s.`,
  signature: "The authorization's signature is not its payer's.",
};

const malformed = (path: readonly PropertyKey[] = []): InvalidPaymentProof =>
  new InvalidPaymentProof(`The x402 payload is malformed: field ${path.join(".") || "payload"} is missing or wrong`, {
    reason: "malformed",
  });

/** Reads a version 1 payload. It echoes nothing, so it must pay one of the current options exactly. */
async function purchaseOfV1(payload: JsonObject, at: PaymentCase): Promise<StandardPurchase | Fault> {
  const parsed = x402V1PayloadSchema.safeParse(payload);
  if (!parsed.success) throw malformed(parsed.error.issues[0]?.path);
  const { settings } = at.context;
  if (findNetwork(parsed.data.network, settings.extraNetworks)?.chainId !== settings.network.chainId) return "network";
  const { authorization, signature } = parsed.data.payload;
  const now = await at.route.offers(at.request);
  if (now.outage) throw now.outage;
  const offers = soldSingly(now.offers, at.route.presentation).filter(({ context }) => context === at.context);
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
    network: parsed.data.network,
    maxAmountRequired: amount.toString(),
    resource: at.resource,
    description: at.route.presentation.description,
    mimeType: at.route.presentation.mimeType,
    payTo,
    maxTimeoutSeconds: MAX_TIMEOUT_SEC,
    asset: token.address,
    extra: { name: token.name, version: token.version },
  };
  return { authorization, signature, token, settlement: { paymentPayload, paymentRequirements } };
}

/**
 * Reads a version 2 payload. It echoes the option, whose memo proves the quote: quoted terms hold until they expire.
 */
function purchaseOfV2(payload: JsonObject, at: PaymentCase): StandardPurchase | Fault {
  const parsed = payloadV2Schema.safeParse(payload);
  if (!parsed.success) throw malformed(parsed.error.issues[0]?.path);
  const { settings, terms, time } = at.context;
  const { accepted } = parsed.data;
  const { authorization, signature } = parsed.data.payload;
  if (accepted.network !== caip2Of(settings.network.chainId)) return "network";
  if (!isEip3009(accepted.extra)) return "transfer_method";
  const named = parsed.data.resource?.url;
  if (named !== undefined && named !== at.resource) return "resource";
  if (authorization.to !== accepted.payTo || authorization.value !== accepted.amount) return "terms";
  const memo = parseMemo(accepted.extra?.memo);
  const { amount, payTo } = accepted;
  const bound = at.bodyHash === undefined ? {} : { bodyHash: at.bodyHash };
  const facts = { method: at.request.method, resource: at.resource, amount, token: accepted.asset, payTo, ...bound };
  if (!memo || !isMemoGenuine(memo, { ...facts, network: settings.network.name }, settings.memoKeys)) return "memo";
  const token = terms.token(checksum(accepted.asset));
  if (!token) {
    // Read for the next attempt: payloads alone must end the outage too. The terms log what fails.
    void terms.load([], true).catch(() => undefined);
    throw new Unavailable("The token's terms could not be read from the chain yet.", { retryAfterSec: 2 });
  }
  const settlement = { paymentPayload: payload, paymentRequirements: payload.accepted } as unknown as X402RequestWire;
  const identifier = paymentIdentifierOf(payload);
  if (identifier.kind === "malformed") return "payment_identifier";
  const identified = identifier.kind === "given" ? { identifier: identifier.id } : {};
  const isLate = time.nowSec() >= memo.expiresAtSec;
  const isQuotedAfter = accepted.extra?.paymentFlow !== "upfront";
  return { authorization, signature, token, settlement, isLate, isQuotedAfter, ...identified };
}

/**
 * Returns whether the Facilitator accepted the payment in time. Only then may it settle it now: for an unknown payment
 * it would move money for an expired quote.
 */
async function isUnderWay({ facilitator }: GateContext, paymentId: Hex): Promise<boolean> {
  const found = await facilitator.payment(paymentId);
  if (found.kind === "refused") throw new Unavailable(found.error.message, { cause: found.error, retryAfterSec: 2 });
  return found.value.status !== "unknown" && found.value.status !== "failed";
}

function faultOfWindow({ validAfter, validBefore }: Authorization, nowSec: number): Fault | undefined {
  const now = BigInt(nowSec);
  const isOpen = validAfter < now + BigInt(SLACK_SEC) && validBefore > now + BigInt(MARGIN_SEC);
  return isOpen && validBefore <= now + BigInt(MAX_TIMEOUT_SEC + SLACK_SEC) ? undefined : "window";
}

/**
 * Checks the signature of an ordinary account. Only the chain can judge a contract wallet's, and the Facilitator asks
 * it. Such a wallet may sign with its owner's key, so another key is a fault only where the payer is known to have no
 * code.
 */
async function faultOfSignature(
  { authorization, signature, token: { address: token, name, version } }: StandardPurchase,
  { settings, rpc }: GateContext,
): Promise<Fault | undefined> {
  if (!SIGNATURE_65.test(signature)) return undefined;
  const { chainId } = settings.network;
  const digest = typedDataDigest(transferTypedData({ chainId, token, name, version }, authorization));
  if (recoverSigner(digest, signature) === authorization.from) return undefined;
  return rpc && !(await hasCode(rpc, authorization.from)) ? "signature" : undefined;
}

/**
 * `payment-identifier` of x402 version 2: one id of one payer names one payment, for as long as that is remembered. A
 * second payment under the same id is refused before any money moves. The id also opens the answer that is kept for it.
 */
export interface Binding {
  readonly store: ClaimStore;
  readonly id: string;
  readonly payer: Address;
  readonly paymentId: OneTimePayment["paymentId"];
  readonly keepUntilSec: number;
  readonly nowSec: number;
}

/**
 * Two records that never become free: "this payment has this id", and "this id is taken".
 * @throws PayloadConflict when another payment has the id, ProofInFlight while another one is taking it
 */
export async function bindIdentifier({ store, id, payer, paymentId, keepUntilSec, nowSec }: Binding): Promise<void> {
  const named = keccakText(JSON.stringify(["payment-identifier", payer, id]));
  const bound = keccakText(JSON.stringify(["payment-identifier", payer, id, paymentId]));
  const claim = (key: OneTimePayment["paymentId"]) =>
    holdClaim({ store, paymentId: key, keepUntilSec, nowSec, nowMs: Date.now });
  const mine = await claim(bound);
  if (mine.kind === "used") return;
  if (mine.kind === "running") throw inFlight(mine.retryAfterSec);
  const taken = await claim(named);
  if (taken.kind === "held") {
    // In this order: a process that dies between them leaves an id that no payment can use, never one that two can.
    await taken.claim.settle("use");
    await mine.claim.settle("use");
    return;
  }
  await mine.claim.settle("withdraw");
  if (taken.kind === "running") throw inFlight(taken.retryAfterSec);
  throw new TurnpikeError("PayloadConflict", "This payment-identifier was used for another payment.");
}

const inFlight = (retryAfterSec: number) => new TurnpikeError("ProofInFlight", undefined, { retryAfterSec });
