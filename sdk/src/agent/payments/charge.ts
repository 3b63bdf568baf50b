/**
 * Determines what `upto` payments were charged. Only the agent's own RPC lowers what counts against the budget: what a
 * provider reports is kept beside it, and compared. Signs and sends nothing.
 */
import { findNetwork, PolicyRefused, sameAddress } from "../../protocol";
import { DAY_SEC } from "../../protocol/periods";
import type { AgentContext } from "../core/context";
import type { AgentLedger } from "../ledger/ledger";
import { movementOf, type PaymentEntry } from "../ledger/ledger-store";
import { isOutage, outcomeOf } from "./authorization-outcome";
import type { SettlementReport } from "./standard";

/** Returns whether a payment was served and may have been charged less than what counts. */
export const isChargeOpen = (entry: PaymentEntry): boolean =>
  movementOf(entry).method === "upto" && entry.state === "served" && entry.charged === undefined;

/** Records what the chain proves of an open charge, where it proves something. The caller has locked the entry. */
export async function confirmCharge(
  context: AgentContext,
  ledger: AgentLedger,
  entry: PaymentEntry,
): Promise<PaymentEntry> {
  const charged = await provenCharge(context, entry);
  if (charged === undefined) return entry;
  const confirmed = { ...entry, charged: charged.toString() };
  await ledger.put(confirmed);
  return confirmed;
}

/** Looks for the charges of all `upto` payments that the budget still counts in full. @returns whether one was proven */
async function confirmCharges(context: AgentContext, ledger: AgentLedger): Promise<boolean> {
  const sinceSec = context.effects.clock.nowSec() - DAY_SEC;
  let isProven = false;
  for (const { id } of ledger.payments().filter((entry) => isChargeOpen(entry) && entry.atSec > sinceSec)) {
    if (!ledger.lock(id)) continue;
    try {
      const entry = ledger.payment(id);
      const now = entry && isChargeOpen(entry) ? await confirmCharge(context, ledger, entry) : entry;
      isProven ||= now?.charged !== undefined;
    } finally {
      ledger.unlock(id);
    }
  }
  return isProven;
}

/**
 * Runs `take`, which takes from the budget. Where it is spent, `upto` payments that were charged less than they count
 * free theirs first.
 * @throws PolicyRefused
 */
export async function withinBudget(context: AgentContext, ledger: AgentLedger, take: () => unknown): Promise<void> {
  try {
    await take();
  } catch (error) {
    if (!(error instanceof PolicyRefused) || !(await confirmCharges(context, ledger))) throw error;
    await take();
  }
}

/**
 * Returns the amount of the reported transaction, where it proves one. After the deadline an unused nonce proves that
 * nothing was charged: a charge of 0 sends no transaction, and until then the payment could still be charged.
 */
async function provenCharge(context: AgentContext, entry: PaymentEntry): Promise<bigint | undefined> {
  const chain = context.chainOf(entry.chainId);
  const { token, payer, payTo, transaction } = entry;
  const { nonce } = movementOf(entry);
  if (!chain || nonce === undefined) return undefined;
  try {
    const max = BigInt(entry.amount);
    const payment = { token, payer, payTo, max, nonce };
    const charged = transaction === undefined ? undefined : await chain.uptoCharge(transaction, payment);
    if (charged !== undefined) return charged;
  } catch (error) {
    // A node that does not know the transaction yet: the deadline decides.
    if (!isOutage(error)) throw error;
  }
  if (context.effects.clock.nowSec() <= entry.validBeforeSec) return undefined;
  return (await outcomeOf(context, entry)) === "unused" ? 0n : undefined;
}

/** What of a settlement report contradicts the payment, as it was signed and as the chain has it. */
export function misreportedField(
  { networks }: AgentContext,
  entry: PaymentEntry,
  { amount, payer, network }: SettlementReport,
): "amount" | "payer" | "network" | undefined {
  const { method, nonce } = movementOf(entry);
  // The token's own transfers move what was signed, in full.
  if (nonce === undefined) return undefined;
  if (payer !== undefined && !sameAddress(payer, entry.payer)) return "payer";
  if (network !== undefined && findNetwork(network, networks)?.chainId !== entry.chainId) return "network";
  if (amount === undefined) return undefined;
  const known = method === "upto" ? entry.charged : entry.amount;
  const isOther = known !== undefined && amount !== BigInt(known);
  return isOther || amount > BigInt(entry.amount) ? "amount" : undefined;
}
