/** Judges standard x402 payloads, versions 1 and 2: the gate checks what was signed, and the Facilitator settles it. */
import { hasCode } from "../../chain/rpc";
import { type Address, keccakText, SIGNATURE_65, TurnpikeError } from "../../protocol";
import { DAY_SEC } from "../../protocol/time";
import { holdClaim } from "../claims/held-claim";
import type { ClaimStore } from "../claims/rules";
import { secretOfPayload } from "../replay/seal";
import {
  ALREADY_USED,
  claimAndConfirm,
  invalid,
  type PaymentCase,
  type PaymentVerdict,
  verdictOfLate,
} from "./claim-payment";
import type { GateContext } from "./context";
import type { PaymentCredential } from "./credentials";
import { chargesNothing, countsOnly, deductsNothing, type OneTimePayment } from "./payment";
import { flowOfPayment } from "./payment-flow";
import { MAX_TIMEOUT_SEC, usableKeyOf } from "./quote";
import {
  type Authorization,
  FAULTS,
  type Fault,
  type PresentedPayment,
  purchaseOfV1,
  purchaseOfV2,
} from "./read-standard";
import { recoverSigner } from "./recover-signer";
import { type DeferRequest, deferSettlement } from "./settle-after";
import { isUnderWay, settleStandard } from "./settle-standard";

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
  if (typeof found === "string") return invalid(found, FAULTS[found]);
  const { authorization, paymentId, transfer, token, settlement, identifier } = found;
  const { settings, time } = at.context;
  const nowSec = time.nowSec();
  const { from, to, value, nonce, validBefore } = authorization;
  const payment: OneTimePayment = {
    kind: "one-time",
    dialect: "x402",
    payer: from,
    payTo: to,
    amount: value,
    ...(transfer === "upto" && { max: value }),
    token: token.address,
    network: settings.network.name,
    paymentId,
    deduct: deductsNothing,
    charge: chargesNothing,
    meter: countsOnly(settings.token ?? {}),
  };
  const secret = secretOfPayload(identifier, usableKeyOf(at.request));
  const late = found.isLate ? "memo_expired" : faultOfWindow(authorization, nowSec);
  // Too late to pay with, but it may have paid already: then a fresh quote would be paid in addition.
  const used = late && (await verdictOfLate(at, { payment, secret }));
  if (used) return used;
  const fault = await faultOfSigned(found, at.context);
  if (fault) return invalid(fault, FAULTS[fault]);
  // The Facilitator may settle it now only if it accepted it in time: an expired quote must not move money.
  if (late && !(await isUnderWay(at.context, paymentId))) return invalid(late, FAULTS[late]);
  const keepUntilSec = Number(validBefore) + DAY_SEC;
  const purchase = { payment, nonce, transfer, settlement, signature: found.signature, secret, keepUntilSec, nowSec };
  return claimAndConfirm(at, {
    payment,
    secret,
    keepUntilSec,
    nowSec,
    async defer(claim) {
      const { claims: store } = at.context;
      if (identifier) await bindIdentifier({ store, id: identifier, payer: from, paymentId, keepUntilSec, nowSec });
      if (transfer === "upto") return deferUpto({ at, purchase, claim, isLate: late !== undefined });
      const flow = await flowOfPayment(at.context, at.route.settle);
      if (flow === "authorization") return deferSettlement({ at, purchase, claim, isLate: late !== undefined });
      if (!found.isQuotedAfter || late) return undefined;
      await claim.settle("withdraw");
      return invalid("flow", FAULTS.flow);
    },
    confirm: () => settleStandard(at, purchase),
  });
}

function faultOfWindow({ validAfter, validBefore }: Authorization, nowSec: number): Fault | undefined {
  const now = BigInt(nowSec);
  const isOpen = validAfter < now + BigInt(SLACK_SEC) && validBefore > now + BigInt(MARGIN_SEC);
  return isOpen && validBefore <= now + BigInt(MAX_TIMEOUT_SEC + SLACK_SEC) ? undefined : "window";
}

/** An `upto` payment settles after its handler alone: before, nobody knows its amount. */
async function deferUpto(request: DeferRequest): Promise<PaymentVerdict> {
  const deferred = await deferSettlement(request);
  if (deferred) return deferred;
  // Accepted by the Facilitator before, for an amount that is not known here any more.
  await request.claim.settle("withdraw");
  return ALREADY_USED;
}

/** @throws Unavailable */
async function faultOfSigned(found: PresentedPayment, context: GateContext): Promise<Fault | undefined> {
  if (found.settler && !(await context.permit2.isSender(found.settler))) return "settler";
  return faultOfSignature(found, context);
}

/**
 * Checks the signature of an ordinary account. Only the chain can judge a contract wallet's, and the Facilitator asks
 * it. Such a wallet may sign with its owner's key, so another key is a fault only where the payer is known to have no
 * code.
 */
async function faultOfSignature(
  { authorization: { from }, digest, signature }: PresentedPayment,
  { rpc }: GateContext,
): Promise<Fault | undefined> {
  if (!SIGNATURE_65.test(signature) || recoverSigner(digest, signature) === from) return undefined;
  return rpc && !(await hasCode(rpc, from)) ? "signature" : undefined;
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
