/** Determines by the agent's own RPC whether a signed authorization was used, or can never be. Signs and sends nothing. */
import { type Hex, isTurnpikeError } from "../../protocol";
import type { AgentContext } from "../core/context";
import { movementOf, type PaymentEntry } from "../ledger/ledger-store";
import { methodOfEntry } from "./methods";
import { nonceInHeader } from "./standard";

/**
 * `unused`: the window is over and the nonce is not used, both as of one block; nothing can move any more.
 * `used`: the nonce is spent or cancelled. `unknown`: there is no RPC, it does not answer, or the window is still open.
 */
export type AuthorizationOutcome = "unused" | "used" | "unknown";

export async function outcomeOf(context: AgentContext, entry: PaymentEntry): Promise<AuthorizationOutcome> {
  const chain = context.chainOf(entry.chainId);
  const nonce = nonceOf(entry);
  if (!chain || nonce === undefined) return "unknown";
  try {
    const { token, payer } = entry;
    const { timeSec, isUsed } = await chain.nonceAtHead({ token, payer, nonce, method: methodOfEntry(entry) });
    if (isUsed) return "used";
    return timeSec > entry.validBeforeSec ? "unused" : "unknown";
  } catch (error) {
    if (isOutage(error)) return "unknown";
    throw error;
  }
}

/**
 * Returns whether a standard payment's window is over by the agent's clock. A native one is settled by its Facilitator.
 */
export const isOver = ({ effects }: AgentContext, { dialect, validBeforeSec }: PaymentEntry): boolean =>
  dialect !== "turnpike" && effects.clock.nowSec() > validBeforeSec;

/** Returns whether a payment can still move money, as far as the agent knows. */
export async function mayMove(context: AgentContext, entry: PaymentEntry): Promise<boolean> {
  if (entry.proof || isOver(context, entry)) return false;
  return (await outcomeOf(context, entry)) === "unknown";
}

/** Returns whether an error is an outage, which says nothing about a payment. */
export const isOutage = (error: unknown): boolean => isTurnpikeError(error) && error.code === "Unavailable";

/** The nonce that was signed; undefined when the ledger holds none that belongs to this payment. */
function nonceOf(entry: PaymentEntry): Hex | undefined {
  const { id, signedPayment, header, chainId, token, payer } = entry;
  if (signedPayment) return signedPayment.authorization.nonce as Hex;
  const { nonce = header && nonceInHeader(header.value) } = movementOf(entry);
  if (nonce === undefined) return undefined;
  return methodOfEntry(entry).paymentIdOf({ chainId, token, payer, nonce }) === id ? nonce : undefined;
}
