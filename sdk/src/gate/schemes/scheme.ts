/** What a scheme has whose money moves through a Facilitator once a handler has answered, or before. */
import { type Hex, hexToBytes, hmacSha256, toHex, utf8ToBytes } from "../../protocol";
import type { PaymentAnswers } from "../core/claim-payment";
import { MAX_WITHHELD_BYTES, type OneTimePayment } from "../core/payment";
import type { PaymentCase } from "../core/payment-case";
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
}

export type Settlement =
  | { readonly kind: "settled"; readonly transaction?: OneTimePayment["transaction"] }
  | { readonly kind: "faulty"; readonly reason: string };

export type Reservation =
  | { readonly kind: "reserved"; readonly grantId: Hex }
  /** it was accepted for settlement before, perhaps for this purchase: the settlement decides */
  | { readonly kind: "under_way" }
  | { readonly kind: "refused"; readonly reason: string };

/** The network's side of a scheme: each call asks a Facilitator or a chain, and may be repeated. */
export interface Scheme<P extends Purchase> {
  /**
   * Reserves the payment until its handler has answered, for the first of `grantIdsOf` that is not refused with
   * `payment_already_granted`. @throws Unavailable, also where nothing was reserved
   */
  reserve(at: PaymentCase, purchase: P): Promise<Reservation>;
  /**
   * Moves the money, for the first of `grantIdsOf` that is granted it by a pinned signer.
   * @throws Unavailable when the outcome is unknown, as `settlement_pending` says: sent again it never pays twice
   */
  settle(at: PaymentCase, purchase: P): Promise<Settlement>;
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

const purchasedIn = ({ request, resource, bodyHash }: PaymentCase, { paymentId, secret }: UnsettledPurchase) => ({
  secret,
  paymentId,
  method: request.method,
  resource,
  bodyHash,
});

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
