/**
 * Has a standard payload settled for one purchase, and checks what must hold before it is served: a pinned signer's
 * grant of this payment to this purchase, and with `verify: "onchain"` the transfer itself. A transfer alone buys
 * nothing: authorizations are public in calldata, so anyone can present one, here or at another gate.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { X402RequestWire } from "../../../facilitator/payments";
import {
  type Address,
  ConfigError,
  type Hex,
  isGrantSigned,
  isHash32,
  keccakText,
  NO_TRANSACTION,
  Unavailable,
} from "../../../protocol";
import { traceHeadersOf } from "../../../protocol/tracing";
import type { GateContext } from "../../core/context";
import type { OneTimePayment } from "../../core/payment";
import type { PaymentCase } from "../../core/payment-case";
import type { Method } from "../../methods";
import { recoverSigner } from "../../methods/method";
import { grantIdsOf, type Purchase, type Reservation, type Scheme, type Settlement } from "../scheme";

/** A transfer that a Facilitator makes by what its payer has signed. */
export interface TransferPurchase extends Purchase {
  readonly nonce: Hex;
  readonly method: Method;
  readonly settlement: X402RequestWire;
}

/** Costs its amount. */
export const exact: Scheme<TransferPurchase> = { reserve, settle, cancel, isUnderWay };

/** Costs what its handler charges, at most its amount. */
export const upto: Scheme<TransferPurchase> = { ...exact, charged };

function charged(purchase: TransferPurchase, amount: bigint): TransferPurchase {
  const { payment, settlement } = purchase;
  const paymentRequirements = { ...settlement.paymentRequirements, amount: amount.toString() };
  return {
    ...purchase,
    payment: { ...payment, amount },
    settlement: { ...settlement, paymentRequirements } as X402RequestWire,
  };
}

const ON_CHAIN_RETRY_MS = 400;

const RETRY_SEC = 2;

async function isUnderWay({ context }: PaymentCase, { payment }: Pick<Purchase, "payment">): Promise<boolean> {
  const found = await context.facilitator.payment(payment.paymentId);
  if (found.kind === "refused") throw new Unavailable(found.error.message, { cause: found.error, retryAfterSec: 2 });
  return found.value.status !== "unknown" && found.value.status !== "failed";
}

/** @throws Unavailable when the Facilitator does not answer, or reserves nothing */
async function reserve(at: PaymentCase, purchase: TransferPurchase): Promise<Reservation> {
  const { context, request, resource } = at;
  const { settlement } = purchase;
  const trace = traceHeadersOf(request);
  let reason = "";
  for (const id of await grantIdsOf(at, purchase)) {
    const verdict = await context.facilitator.x402Verify({ ...settlement, grant: { id, resource } }, { trace });
    if (verdict.isValid) {
      if (verdict.reserved) return { kind: "reserved", grantId: id };
      throw new Unavailable("The Facilitator did not reserve the payment: nothing is served by it.", {
        retryAfterSec: 60,
      });
    }
    reason = verdict.invalidReason;
    // Perhaps for this very purchase, presented first without its key.
    if (reason !== "payment_already_granted") break;
  }
  return (await isUnderWay(at, purchase)) ? { kind: "under_way" } : { kind: "refused", reason };
}

/** Facilitators of other makes name a time-out, after which the transfer may still be mined. */
const UNKNOWN_OUTCOME = /^settlement_pending$|time(?:d_)?out$/;

function cancel({ context }: PaymentCase, { payment }: TransferPurchase, grantId: Hex): Promise<unknown> {
  return context.facilitator.releasePayment(payment.paymentId, grantId);
}

async function settle(at: PaymentCase, purchase: TransferPurchase): Promise<Settlement> {
  const { context, request, resource } = at;
  const { payment, settlement } = purchase;
  const trace = traceHeadersOf(request);
  const [ownGrantId, bareGrantId] = await grantIdsOf(at, purchase);
  let grantId = ownGrantId;
  if (context.settings.facilitator?.trustUnsigned) {
    if (await isSpentElsewhere(at, purchase, grantId)) return { kind: "faulty", reason: "authorization_used" };
  } else await requireGrants(context);
  const ask = () => context.facilitator.x402Settle({ ...settlement, grant: { id: grantId, resource } }, { trace });
  let outcome = await ask();
  if (!outcome.success && outcome.errorReason === "payment_already_granted" && bareGrantId !== undefined) {
    // Perhaps to this very purchase, presented first without its key: such a payment is anybody's who presents it.
    grantId = bareGrantId;
    outcome = await ask();
  }
  if (!outcome.success) {
    if (UNKNOWN_OUTCOME.test(outcome.errorReason)) {
      throw new Unavailable("The payment is not settled yet: send the same payload again.", {
        retryAfterSec: RETRY_SEC,
      });
    }
    if (await mayHaveMoved(at, purchase, outcome.errorReason)) {
      throw new Unavailable(
        "The Facilitator refuses a payment that may have moved its money: send the same payload again.",
        { retryAfterSec: RETRY_SEC },
      );
    }
    return { kind: "faulty", reason: outcome.errorReason };
  }
  const { transaction: named, grant } = outcome;
  const isWaived = payment.max !== undefined && payment.amount === 0n;
  const transaction = isWaived && named === "" ? NO_TRANSACTION : named;
  if (!isHash32(transaction)) {
    throw new Unavailable("The Facilitator named no transaction for a settled payment.", { retryAfterSec: RETRY_SEC });
  }
  const { settings } = context;
  if (!isGranted(at, payment, { transaction, grantId, grant })) {
    throw new Unavailable(
      "The Facilitator's answer is not signed for this purchase by a signer of `facilitator.signers`: nothing is served by it.",
      { retryAfterSec: 10 },
    );
  }
  if (isWaived) return { kind: "settled" };
  if (settings.verify === "onchain") await untilOnChain(context, purchase, transaction);
  return { kind: "settled", transaction };
}

/** These say themselves that it was used. */
const OF_USED: ReadonlySet<string> = new Set(["payment_already_granted", "invalid_exact_evm_nonce_already_used"]);

/** Returns whether an earlier attempt may have moved the money of a refused payment: its payer must not pay again. */
async function mayHaveMoved(at: PaymentCase, purchase: TransferPurchase, reason: string): Promise<boolean> {
  if (OF_USED.has(reason)) return false;
  const { rpc, settings } = at.context;
  const { payment, nonce, method } = purchase;
  if (!settings.facilitator?.trustUnsigned) return isUnderWay(at, purchase);
  // One of another make knows payments by no id.
  return rpc !== undefined && method.isUsed(rpc, { ...payment, nonce });
}

interface Granted {
  readonly transaction: Hex;
  readonly grantId: Hex;
  /** as the Facilitator answered */
  readonly grant: { readonly facilitator: Address; readonly signature: Hex } | undefined;
}

/** Returns whether a pinned signer granted this payment to this purchase, or no signature is required. */
function isGranted(
  { context: { settings, time, facilitatorCheck }, resource }: PaymentCase,
  { token, payTo, amount, paymentId }: OneTimePayment,
  { transaction, grantId, grant }: Granted,
): boolean {
  const { facilitator } = settings;
  // Where no signer is pinned, a signature proves nothing more than the Facilitator's answer does.
  if (!grant || !facilitator || facilitator.signers.list.length === 0) return facilitator?.trustUnsigned === true;
  // A grant is signed now: a retired signer signs none.
  if (!facilitator.signers.isTrustedSigner(grant.facilitator, time.nowSec())) {
    facilitatorCheck.refusedSigner(grant.facilitator);
    return false;
  }
  const { chainId } = settings.network;
  const facts = { chainId, token, paymentId, payTo, amount, transaction, grantId, resourceHash: keccakText(resource) };
  return isGrantSigned({ ...facts, facilitator: grant.facilitator }, grant.signature, recoverSigner);
}

/**
 * Where nobody signs grants, an authorization that was used before it came here has bought something elsewhere: it may
 * have been read from calldata. Asked only where this gate has a node of its own, and once for a purchase: that it was
 * unused is recorded before the Facilitator is asked, so that a retry is not refused for what this gate has settled.
 */
async function isSpentElsewhere(
  { context }: PaymentCase,
  { payment, nonce, method, keepUntilSec, nowSec }: TransferPurchase,
  grantId: Hex,
): Promise<boolean> {
  if (!context.rpc) return false;
  const isKnown = async () => (await context.claims.facts(payment.paymentId)).get(grantId)?.unusedAtFirst === true;
  if (await isKnown()) return false;
  // Another process that has taken this payment over may have noted it, and settled, meanwhile.
  if (await method.isUsed(context.rpc, { ...payment, nonce })) return !(await isKnown());
  await context.claims.note(payment.paymentId, grantId, { unusedAtFirst: true }, { keepUntilSec, nowSec });
  return false;
}

/** @throws Unavailable where the Facilitator signs no grants: the payer would pay, and could not be served */
async function requireGrants({ facilitator, settings }: GateContext): Promise<void> {
  if (await facilitator.signsGrants()) return;
  throw new Unavailable(
    `The Facilitator at ${settings.facilitator?.url} signs no payment grants: standard x402 payloads need one that does.`,
    { retryAfterSec: 60 },
  );
}

/** Waits until the gate's own node shows the transfer, for a bounded time: it may be behind the Facilitator's. */
async function untilOnChain(
  context: GateContext,
  { payment, nonce, method }: TransferPurchase,
  transaction: Hex,
): Promise<void> {
  if (!context.rpc) throw new ConfigError('rpcUrl is not set (TURNPIKE_RPC_URL): verify "onchain" reads the chain');
  const { token, payer, payTo, amount } = payment;
  const { confirmations, settleWaitMs } = context.settings;
  const untilMs = performance.now() + settleWaitMs;
  for (;;) {
    const expected = { token, payer, payTo, amount, nonce, transaction, confirmations };
    const found = await method.findSettlement(context.rpc, expected);
    if (found === "settled") return;
    if (performance.now() >= untilMs) {
      const what =
        found === "shallow" ? `is not ${confirmations} blocks deep yet` : "is not on the chain that is read here";
      throw new Unavailable(`The payment's transfer ${what}: send the same payload again.`, {
        retryAfterSec: RETRY_SEC,
      });
    }
    await sleep(ON_CHAIN_RETRY_MS);
  }
}
