/**
 * Keeps the answer to a payment that has not settled yet in the claim store, sealed: a retry settles and gets it, and no
 * handler runs a second time.
 */
import type { Hex } from "../../protocol";
import { MAX_WITHHELD_BYTES } from "../core/deferred-settlement";
import type { PaymentCase } from "../core/payment-case";
import type { KeptAnswer } from "../replay/fit";
import { keeperOf, openAnswer, type ReplaySecret } from "../replay/keeper";

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

/** Stores nothing where the route keeps no answers. @throws Unavailable */
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
