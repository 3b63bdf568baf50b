/**
 * What a scheme has whose money moves through a Facilitator once a handler has answered, or before; and what must hold for
 * every scheme before a settled payment is served: a pinned signer's grant of this payment to this purchase, and with
 * `verify: "onchain"` the transfer itself. A transfer alone buys nothing: authorizations are public in calldata, so anyone
 * can present one, here or at another gate.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { readNonceUse } from "../../chain/views";
import {
  type Address,
  ConfigError,
  type Hex,
  hexToBytes,
  hmacSha256,
  isGrantSigned,
  isHash32,
  keccakText,
  NO_TRANSACTION,
  toHex,
  Unavailable,
  utf8ToBytes,
} from "../../protocol";
import { hasBought } from "../../protocol/refusals";
import type { GateContext } from "../core/context";
import { MAX_WITHHELD_BYTES, type OneTimePayment } from "../core/payment";
import { type PaymentAnswers, type PaymentCase, purchasedIn } from "../core/payment-case";
import type { Method } from "../methods";
import { recoverSigner } from "../methods/method";
import type { HeldClaim } from "../purchases/held";
import type { KeptAnswer } from "../replay/fit";
import { keeperOf, openAnswer, type ReplaySecret } from "../replay/keeper";

/** One payment for one request. */
export interface Purchase {
  /** in which it is answered */
  readonly dialect: PaymentAnswers;
  readonly payment: OneTimePayment;
  /** the credential's own, as text: no chain shows it before the payment has settled */
  readonly signature: string;
  /** of the first request: a client that copied the payment from calldata does not know it, and gets no grant */
  readonly secret: ReplaySecret | undefined;
  /** of the claims that concern it, unix seconds: a day after its authorization ends */
  readonly keepUntilSec: number;
  readonly nowSec: number;
  /** how its transfer is authorized, and under which nonce: by both a gate's own node finds it */
  readonly method: Method;
  readonly nonce: Hex;
}

export type Settlement =
  | { readonly kind: "settled"; readonly transaction?: OneTimePayment["transaction"] }
  | { readonly kind: "faulty"; readonly reason: string };

/** As a Facilitator answers: `settleFor` checks it. */
export type SettlementAnswer =
  | { readonly kind: "settled"; readonly transaction: string; readonly grant: SignedGrant | undefined }
  | Extract<Settlement, { kind: "faulty" }>;

interface SignedGrant {
  readonly facilitator: Address;
  readonly signature: Hex;
}

export type Reservation =
  | { readonly kind: "reserved"; readonly grantId: Hex }
  | { readonly kind: "refused"; readonly reason: string };

/** The network's side of a scheme: each call asks a Facilitator, and may be repeated. What it answers is checked here. */
export interface Scheme<P extends Purchase> {
  /** Reserves the payment for a grant id until its handler has answered. @throws Unavailable, also where nothing was reserved */
  reserve(at: PaymentCase, purchase: P, grantId: Hex): Promise<Reservation>;
  /**
   * Moves the money, for a grant id.
   * @throws Unavailable when the outcome is unknown, as `settlement_pending` says: sent again it never pays twice
   */
  settle(at: PaymentCase, purchase: P, grantId: Hex): Promise<SettlementAnswer>;
  /** Ends a reservation, which otherwise ends by itself. */
  cancel(at: PaymentCase, purchase: P, grantId: Hex): Promise<unknown>;
  /** Returns whether it was accepted for settlement and has not failed; a reversal is no failure. @throws Unavailable */
  isUnderWay(at: PaymentCase, purchase: P): Promise<boolean>;
  /** Returns the purchase at what its handler has charged, base units. Absent: it costs its amount. */
  charged?(purchase: P, amount: bigint): P;
}

/** One handler's run of a claimed payment. */
export interface Run<P extends Purchase> {
  readonly at: PaymentCase;
  readonly scheme: Scheme<P>;
  readonly purchase: P;
  readonly claim: HeldClaim;
}

const TAKEN = "payment_already_granted";

/**
 * Reserves a payment for its purchase. `under_way`: it was accepted for settlement before, perhaps for this purchase: the
 * settlement decides. @throws Unavailable
 */
export async function reserveFor<P extends Purchase>({
  at,
  scheme,
  purchase,
}: Run<P>): Promise<Reservation | { readonly kind: "under_way" }> {
  let reservation: Reservation = { kind: "refused", reason: TAKEN };
  for (const grantId of await grantIdsOf(at, purchase)) {
    reservation = await scheme.reserve(at, purchase, grantId);
    // Perhaps for this very purchase, presented first without its key.
    if (reservation.kind === "reserved" || reservation.reason !== TAKEN) break;
  }
  if (reservation.kind === "reserved") return reservation;
  return (await scheme.isUnderWay(at, purchase)) ? { kind: "under_way" } : reservation;
}

/** Settles a payment for its purchase, and proves that it has. @throws Unavailable when the outcome is unknown or unproved */
export async function settleFor<P extends Purchase>({ at, scheme, purchase }: Run<P>): Promise<Settlement> {
  const { context } = at;
  const grantIds = await grantIdsOf(at, purchase);
  if (context.settings.facilitator?.trustUnsigned) {
    if (await isSpentElsewhere(at, purchase, grantIds[0])) return { kind: "faulty", reason: "authorization_used" };
  } else await requireGrants(context);
  let answer: SettlementAnswer = { kind: "faulty", reason: TAKEN };
  for (const grantId of grantIds) {
    answer = await scheme.settle(at, purchase, grantId);
    if (answer.kind === "settled") return proved(at, purchase, { ...answer, grantId });
    // Perhaps to this very purchase, presented first without its key: such a payment is anybody's who presents it.
    if (answer.reason !== TAKEN) break;
  }
  if (await mayHaveMoved({ at, scheme, purchase }, answer.reason)) {
    throw new Unavailable(
      "The Facilitator refuses a payment that may have moved its money: send the same payload again.",
      { retryAfterSec: RETRY_SEC },
    );
  }
  return answer;
}

/** Returns whether an earlier attempt may have moved the money of a refused payment: its payer must not pay again. */
async function mayHaveMoved<P extends Purchase>(
  { at, scheme, purchase }: Pick<Run<P>, "at" | "scheme" | "purchase">,
  reason: string,
): Promise<boolean> {
  // It says itself that it was used.
  if (hasBought(reason)) return false;
  const { rpc, settings } = at.context;
  const { payment, nonce, method } = purchase;
  if (!settings.facilitator?.trustUnsigned) return scheme.isUnderWay(at, purchase);
  // One of another make knows payments by no id.
  return rpc !== undefined && readNonceUse(rpc, method.nonceView({ ...payment, nonce }));
}

async function proved(
  at: PaymentCase,
  purchase: Purchase,
  { transaction: named, grant, grantId }: Extract<SettlementAnswer, { kind: "settled" }> & { readonly grantId: Hex },
): Promise<Settlement> {
  const { context } = at;
  const { payment } = purchase;
  const isWaived = payment.max !== undefined && payment.amount === 0n;
  const transaction = isWaived && named === "" ? NO_TRANSACTION : named;
  if (!isHash32(transaction)) {
    throw new Unavailable("The Facilitator named no transaction for a settled payment.", { retryAfterSec: RETRY_SEC });
  }
  if (!isGranted(at, payment, { transaction, grantId, grant })) {
    throw new Unavailable(
      "The Facilitator's answer is not signed for this purchase by a signer of `facilitator.signers`: nothing is served by it.",
      { retryAfterSec: 10 },
    );
  }
  if (isWaived) return { kind: "settled" };
  if (context.settings.verify === "onchain") await untilOnChain(context, purchase, transaction);
  return { kind: "settled", transaction };
}

const ON_CHAIN_RETRY_MS = 400;

const RETRY_SEC = 2;

interface Granted {
  readonly transaction: Hex;
  readonly grantId: Hex;
  readonly grant: SignedGrant | undefined;
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
  { payment, nonce, method, keepUntilSec, nowSec }: Purchase,
  grantId: Hex,
): Promise<boolean> {
  if (!context.rpc) return false;
  const isKnown = async () => (await context.claims.facts(payment.paymentId)).get(grantId)?.unusedAtFirst === true;
  if (await isKnown()) return false;
  // Another process that has taken this payment over may have noted it, and settled, meanwhile.
  if (await readNonceUse(context.rpc, method.nonceView({ ...payment, nonce }))) return !(await isKnown());
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
  { payment, nonce, method }: Purchase,
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

/** Returns the purchase's grant id, then that of the same purchase presented without its key. */
export async function grantIdsOf(
  at: PaymentCase,
  { payment: { paymentId }, secret }: Pick<Purchase, "payment" | "secret">,
): Promise<readonly [Hex] | readonly [Hex, Hex]> {
  const bare = await grantIdOf(at, paymentId, undefined);
  return secret === undefined ? [bare] : [await grantIdOf(at, paymentId, secret), bare];
}

/**
 * Derives a purchase's grant id: the same in every process of this store, and after a crash. Another store never has
 * the key, so a gate that shares everything but its claims cannot be granted this gate's payment.
 */
async function grantIdOf(
  { context, request, resource, bodyHash }: PaymentCase,
  paymentId: Hex,
  secret: ReplaySecret | undefined,
): Promise<Hex> {
  const purchase = JSON.stringify(["grant", paymentId, request.method, resource, bodyHash ?? null, secret ?? null]);
  return toHex(hmacSha256(hexToBytes(await context.claims.grantKey()), utf8ToBytes(purchase)));
}

export interface UnsettledPurchase {
  readonly paymentId: Hex;
  /** opens the answer: of the request, or the payload's own signature, which no chain shows before it settles */
  readonly secret: ReplaySecret;
  /** of the purchase */
  readonly grantId: Hex;
}

/**
 * Keeps the answer to a payment that has not settled yet, sealed: a retry settles and gets it, and no handler runs a second
 * time. Stores nothing where the route keeps no answers. @throws Unavailable
 */
export async function storeUnsettled(at: PaymentCase, bought: UnsettledPurchase, answer: KeptAnswer): Promise<void> {
  const { settings, claims } = at.context;
  if (!settings.replay || !at.route.replays) return;
  const keeper = keeperOf({
    purchased: purchasedIn(at, bought),
    request: at.request,
    limits: { maxBytes: MAX_WITHHELD_BYTES, keepSec: settings.replay.keepSec },
    gateKey: settings.memoKeys[0],
    nowMs: Date.now,
  });
  await claims.shelve(bought.grantId, keeper.seal(answer));
}

/** @returns undefined where none is kept, or the request does not open it. @throws Unavailable */
export async function findUnsettled(at: PaymentCase, bought: UnsettledPurchase): Promise<KeptAnswer | undefined> {
  const { settings, claims } = at.context;
  const sealed = await claims.shelved(bought.grantId, Date.now());
  return openAnswer(sealed, purchasedIn(at, bought), settings.memoKeys);
}
