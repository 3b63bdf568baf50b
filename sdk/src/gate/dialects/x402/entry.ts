/**
 * Selects the context that a payment is judged in where a route sells in several tokens or on several networks: the one
 * whose network, token and payee it names. Only that one's Facilitator and chain can make it count.
 */
import {
  type Address,
  findNetwork,
  type JsonObject,
  sameAddress,
  signatureWithV,
  transferTypedData,
  typedDataDigest,
  x402V1PayloadSchema,
} from "../../../protocol";
import type { GateContext } from "../../core/context";
import { soldInVersion1 } from "../../core/offers";
import type { PaymentCase } from "../../core/payment-case";
import { recoverSigner } from "../../methods/method";

/**
 * Returns the case in the context of the entry that a payment names. One that names none of them is judged in the first
 * of its network, or of the route, and refused there.
 * @param named its network, asset and payTo, as they were sent
 * @param at in the context of the route's first entry
 */
export function entryNamed(named: unknown, at: PaymentCase): PaymentCase {
  const { network, asset, payTo } = (named ?? {}) as JsonObject;
  const onNetwork = contextsOn(network, at);
  const paid = onNetwork.find(
    ({ settings }) => isAddress(asset, settings.token?.address) && isAddress(payTo, settings.payTo),
  );
  return at.in(paid ?? onNetwork[0] ?? at.context);
}

const isAddress = (value: unknown, expected: Address | undefined): boolean =>
  typeof value === "string" && expected !== undefined && sameAddress(value, expected);

function contextsOn(network: unknown, { route, context }: PaymentCase): readonly GateContext[] {
  const chainId =
    typeof network === "string" ? findNetwork(network, context.settings.extraNetworks)?.chainId : undefined;
  return route.contexts.filter(({ settings }) => settings.network.chainId === chainId);
}

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
