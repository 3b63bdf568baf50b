/**
 * Reads from the agent's own RPC whether a signed authorization has moved money, or never can. Signs and sends nothing.
 */
import { type Hex, isTurnpikeError, paymentIdOf } from "../../protocol";
import type { AgentContext } from "../core/context";
import type { PaymentEntry } from "../ledger/ledger-store";
import { nonceInHeader } from "./standard";

/**
 * `unused`: the window is over and the token has not seen the nonce, both as of one block; nothing can move any more.
 * `used`: the nonce is spent or cancelled. `unknown`: there is no RPC, it does not answer, or the window is still open.
 */
export type AuthorizationOutcome = "unused" | "used" | "unknown";

export async function outcomeOf(context: AgentContext, entry: PaymentEntry): Promise<AuthorizationOutcome> {
  const chain = context.chainOf(entry.chainId);
  const nonce = nonceOf(entry);
  if (!chain || nonce === undefined) return "unknown";
  try {
    const { timeSec, isUsed } = await chain.nonceAtHead(entry.token, entry.payer, nonce);
    if (isUsed) return "used";
    return timeSec > entry.validBeforeSec ? "unused" : "unknown";
  } catch (error) {
    if (isOutage(error)) return "unknown";
    throw error;
  }
}

/** Returns whether an error is an outage, which says nothing about a payment. */
export const isOutage = (error: unknown): boolean => isTurnpikeError(error) && error.code === "Unavailable";

/** The nonce that was signed; undefined when the ledger holds none that belongs to this payment. */
function nonceOf({ id, signedPayment, header, chainId, token, payer }: PaymentEntry): Hex | undefined {
  if (signedPayment) return signedPayment.authorization.nonce as Hex;
  const nonce = header && nonceInHeader(header.value);
  return nonce !== undefined && paymentIdOf({ chainId, token, payer, nonce }) === id ? nonce : undefined;
}
