/**
 * Keeps the answer to a payment that has not settled yet in the claim store, sealed, beside the payment's claim: a
 * retry settles and gets it, and no handler runs a second time.
 */
import { type Hex, keccakText } from "../../protocol";
import { holdClaim } from "../claims/held-claim";
import { findServed, type KeptAnswer, keeperOf } from "../replay/keeper";
import type { ReplaySecret } from "../replay/seal";
import type { PaymentCase } from "./claim-payment";
import { MAX_WITHHELD_BYTES } from "./deferred-settlement";

export interface UnsettledPurchase {
  readonly paymentId: Hex;
  /** opens the answer: of the request, or the payload's own signature, which no chain shows before it settles */
  readonly secret: ReplaySecret;
  /** of the purchase */
  readonly grantId: Hex;
  /** of the record, unix seconds */
  readonly keepUntilSec: number;
  readonly nowSec: number;
}

const keyOf = (grantId: Hex): Hex => keccakText(JSON.stringify(["unsettled answer", grantId]));

const purchasedIn = ({ request, resource, bodyHash }: PaymentCase, { paymentId, secret }: UnsettledPurchase) => ({
  secret,
  paymentId,
  method: request.method,
  resource,
  bodyHash,
});

/** Stores nothing where the route keeps no answers. @throws Unavailable */
export async function storeUnsettled(at: PaymentCase, bought: UnsettledPurchase, answer: KeptAnswer): Promise<void> {
  const { settings, claims: store } = at.context;
  if (!settings.replay || !at.route.replays || !store.served) return;
  const { keepUntilSec, nowSec } = bought;
  const attempt = await holdClaim({ store, paymentId: keyOf(bought.grantId), keepUntilSec, nowSec, nowMs: Date.now });
  // Used: an answer was stored for this purchase before, and could not be read again.
  if (attempt.kind !== "held") return;
  const limits = { maxBytes: MAX_WITHHELD_BYTES, keepSec: settings.replay.keepSec };
  const keeper = keeperOf({
    purchased: purchasedIn(at, bought),
    request: at.request,
    limits,
    gateKey: settings.memoKeys[0],
    nowMs: Date.now,
  });
  await attempt.claim.settle("use", keeper.seal(answer));
}

/** @returns undefined where none is kept, or the request does not open it. @throws Unavailable */
export async function findUnsettled(at: PaymentCase, bought: UnsettledPurchase): Promise<KeptAnswer | undefined> {
  const { settings, claims: store } = at.context;
  const purchased = purchasedIn(at, bought);
  const paymentId = keyOf(bought.grantId);
  const found = await findServed({ store, paymentId, purchased, gateKeys: settings.memoKeys, nowMs: Date.now() });
  return found?.kind === "answer" ? found.answer : undefined;
}
