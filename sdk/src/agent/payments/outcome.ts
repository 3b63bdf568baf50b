/**
 * Decides about a standard payment that its provider does not serve: released where the agent's own RPC proves that it
 * moved nothing, held where the outcome is unknown. Signs and sends nothing.
 */
import { PaymentPending } from "../../protocol";
import type { AgentContext } from "../core/context";
import { emitPayment } from "../core/effects";
import type { AgentLedger } from "../ledger/ledger";
import type { PaymentEntry } from "../ledger/ledger-store";
import { type AuthorizationOutcome, outcomeOf } from "./authorization-outcome";
import { isSpent, type Presented } from "./present";

export interface Unserved {
  readonly ledger: AgentLedger;
  /** An earlier call has left it so. */
  readonly entry: PaymentEntry;
  readonly presented: Exclude<Presented<unknown>, { readonly kind: "answered" }>;
  readonly isLate: boolean;
}

/**
 * Releases a standard payment of an earlier call when the agent's own RPC proves that it is unused. The provider's
 * refusal is no evidence: the payment may have settled behind an earlier answer.
 * @returns whether another may be signed
 * @throws PaymentPending when its window is over and its outcome is unknown
 */
export async function isReplaceable(context: AgentContext, unserved: Unserved): Promise<boolean> {
  const { ledger, entry, presented, isLate } = unserved;
  // A payment that was served once has ended its purchase.
  if (entry.dialect === "turnpike" || entry.state !== "signed") return false;
  if (presented.kind === "rejected" && isSpent(presented.reason)) return false;
  const outcome = await releaseUnused(context, ledger, entry);
  const isHeld = isLate && outcome === "unknown";
  if (presented.kind === "postponed" && (isHeld || outcome === "unused")) await presented.answer.discard();
  if (!isHeld) return outcome === "unused";
  emitPayment(context.effects, "payment.held", { entry, resumed: true });
  throw held(entry, context.chainOf(entry.chainId) !== undefined);
}

/** Releases the budget of a standard payment that the agent's own RPC proves unused. */
export async function releaseUnused(
  context: AgentContext,
  ledger: AgentLedger,
  entry: PaymentEntry,
): Promise<AuthorizationOutcome> {
  const outcome = await outcomeOf(context, entry);
  if (outcome !== "unused") return outcome;
  const { header: _void, ...ended } = entry;
  await ledger.put({ ...ended, state: "released" });
  emitPayment(context.effects, "payment.released", { entry, resumed: true });
  return outcome;
}

function held({ id }: PaymentEntry, hasRpc: boolean): PaymentPending {
  const why = hasRpc
    ? "the agent's RPC does not prove that it moved no money"
    : "the agent has no RPC for its chain that could prove that it moved no money";
  return new PaymentPending(
    `The outcome of payment ${id} is not known: its window is over, the provider does not serve it, and ${why}. The next call presents it again and signs no other; agent.giveUp(paymentId) ends it.`,
    { details: { paymentId: id } },
  );
}
