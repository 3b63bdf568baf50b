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
} from "../../protocol";
import type { GateContext } from "./context";
import type { PaymentCredential } from "./credentials";
import { soldInVersion1 } from "./offers";
import type { PaymentCase } from "./payment-case";
import { recoverSigner } from "./recover-signer";

/**
 * Returns the case in the context of the entry that a credential names. One that names none of them is judged in the
 * first of its network, or of the route, and refused there.
 * @param at in the context of the route's first entry
 * @throws Unavailable where a price that it may pay cannot be read now
 */
export function entryCase(credential: PaymentCredential, at: PaymentCase): PaymentCase | Promise<PaymentCase> {
  if (credential.kind === "malformed") return at;
  const { payload } = credential;
  if (credential.kind === "x402-v1") return entryCaseOfV1(payload, at);
  const named = (credential.kind === "proof" ? payload : (payload.accepted ?? {})) as JsonObject;
  const token = credential.kind === "proof" ? named.token : named.asset;
  const onNetwork = contextsOn(named.network, at);
  const paid = onNetwork.find(
    ({ settings }) => isAddress(token, settings.token?.address) && isAddress(named.payTo, settings.payTo),
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
 */
async function entryCaseOfV1(payload: JsonObject, at: PaymentCase): Promise<PaymentCase> {
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
