/** Selects the context that a payment of version 1 is judged in, where a route sells in several. */
import {
  type JsonObject,
  signatureWithV,
  transferTypedData,
  typedDataDigest,
  x402V1PayloadSchema,
} from "../../../protocol";
import { contextsOn } from "../../core/dialect";
import { soldInVersion1 } from "../../core/offers";
import type { PaymentCase } from "../../core/payment-case";
import { recoverSigner } from "../../methods/method";

/**
 * A version 1 payload names no token: its signature shows which of several it moves. A contract wallet's cannot be read
 * here, so that it is judged in the first that sells at its amount and payee, and its Facilitator verifies the signature.
 * @throws Unavailable where a price that it may pay cannot be read now
 */
export async function entryOfV1(payload: JsonObject, at: PaymentCase): Promise<PaymentCase> {
  const onNetwork = contextsOn(payload.network, at);
  const fallback = at.in(onNetwork[0] ?? at.context);
  const parsed = onNetwork.length > 1 ? x402V1PayloadSchema.safeParse(payload) : undefined;
  if (!parsed?.success) return fallback;
  const { authorization, signature } = parsed.data.payload;
  const now = await at.route.offers.now(at.request);
  if (now.outage) throw now.outage;
  const fitting = soldInVersion1(now.offers, at.route.presentation).flatMap((offer) => {
    const context = onNetwork.find((each) => each === offer.context);
    const isPaid = offer.payTo === authorization.to && offer.amount === authorization.value;
    return context && isPaid ? [{ context, token: offer.token }] : [];
  });
  const signed = fitting.find(({ context, token: { address: token, name, version } }) => {
    const { chainId } = context.settings.network;
    const digest = typedDataDigest(transferTypedData({ chainId, token, name, version }, authorization));
    return recoverSigner(digest, signatureWithV(signature)) === authorization.from;
  });
  if (signed) return at.in(signed.context);
  // What it pays may be an entry that is left out now: that is no reason to refuse it.
  for (const each of onNetwork) {
    const outage = now.outages.get(each);
    if (outage) throw outage;
  }
  const [context] = fitting;
  return context ? at.in(context.context) : fallback;
}
