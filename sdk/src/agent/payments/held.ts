/** Lists the ledger's payments, asks for the outcome of those that are open, and gives one up. */
import { type Hex, isTurnpikeError, TurnpikeError } from "../../protocol";
import type { AgentContext } from "../core/context";
import type { AgentLedger } from "../ledger/ledger";
import type { PaymentEntry } from "../ledger/ledger-store";
import { confirmCharge, isChargeOpen } from "./charge";
import { releaseUnused } from "./outcome";
import { faultOfStoredProof } from "./proofs";
import { settle } from "./settle";
import { type ChargeView, chargeViewOf, idHashOfSpend, type PaymentView, viewOf } from "./view";

/** Oldest first. */
export async function payments(context: AgentContext): Promise<PaymentView[]> {
  return (await context.ledger()).payments().map(viewOf);
}

/** Oldest first; what was released is left out. */
export async function charges(context: AgentContext): Promise<ChargeView[]> {
  const held = (await context.ledger()).spends().filter(({ state }) => state === "held");
  return held.map((entry) => chargeViewOf(entry, idHashOfSpend(entry.id)));
}

/**
 * Asks once for the outcome of every payment that is not known to have settled, as after a restart. What has settled is
 * presented by the next call for the same request; what can never move money gives its budget back. So does what an
 * `upto` payment proves not to have been charged.
 */
export async function settleHeld(context: AgentContext): Promise<PaymentView[]> {
  const ledger = await context.ledger();
  const isOpen = (entry: PaymentEntry) => entry.state === "signed" || (entry.state === "settled" && !isProven(entry));
  const isProven = (entry: PaymentEntry) =>
    entry.proof !== undefined && faultOfStoredProof(context, entry, entry.proof) === undefined;
  const isAskable = (entry: PaymentEntry) =>
    isChargeOpen(entry) || (isOpen(entry) && (entry.signedPayment ?? entry.header) !== undefined);
  const held = ledger.payments().filter((entry) => isAskable(entry));
  const views: PaymentView[] = [];
  for (const { id } of held) {
    if (!ledger.lock(id)) continue;
    try {
      const entry = ledger.payment(id);
      if (!entry || !isAskable(entry)) continue;
      await ledger.requireSaved(entry);
      await askOutcome(context, ledger, entry);
    } catch (error) {
      // Still unknown, or refused: it stays held, which is what its view says.
      if (!isTurnpikeError(error)) throw error;
    } finally {
      ledger.unlock(id);
    }
    const now = ledger.payment(id);
    if (now) views.push(viewOf(now));
  }
  return views;
}

/** A standard payment has no Facilitator of the agent's: only its own RPC can say anything. */
function askOutcome(context: AgentContext, ledger: AgentLedger, entry: PaymentEntry): Promise<unknown> {
  if (isChargeOpen(entry)) return confirmCharge(context, ledger, entry);
  return entry.dialect === "turnpike"
    ? settle(context, { ledger, entry, resumed: true, signal: undefined })
    : releaseUnused(context, ledger, entry);
}

/**
 * Stops presenting a payment that the provider will not serve. Its amount stays counted against the budget: the money
 * may have moved.
 */
export async function giveUp(context: AgentContext, paymentId: Hex): Promise<void> {
  const ledger = await context.ledger();
  const entry = ledger.payment(paymentId);
  if (!entry) throw new TurnpikeError("UnknownObject", "This agent's ledger holds no such payment.");
  if (entry.state !== "signed" && entry.state !== "settled") return;
  if (!ledger.lock(paymentId))
    throw new TurnpikeError("PaymentPending", "Another call is using this payment; repeat this when it has ended.");
  try {
    const { signedPayment: _a, header: _b, proof, ...kept } = entry;
    await ledger.put({ ...kept, ...(proof ? { transaction: proof.transaction as Hex } : {}), state: "served" });
  } finally {
    ledger.unlock(paymentId);
  }
}
