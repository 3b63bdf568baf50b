/** Records which charge of the chain a reservation of the budget became, so that refunds of it can be credited. */
import { chargeIdOf } from "../../protocol";
import type { AgentLedger } from "../ledger/ledger";
import type { SubscriptionEntry } from "../ledger/ledger-store";

/**
 * Names the charge by the record right after it. A record that has gone on meanwhile names another: its refunds are then
 * not credited.
 */
export async function recordCharge(
  ledger: AgentLedger,
  spendId: string,
  { id: idHash, chainId, turnpike, token, subscriber, provider, facilitator }: SubscriptionEntry,
  { version, paidThrough }: { readonly version: number; readonly paidThrough: number },
): Promise<void> {
  const spend = ledger.spend(spendId);
  if (spend?.state !== "held") return;
  const id = chargeIdOf({ chainId, turnpike }, { idHash, version, paidThrough });
  await ledger.put({ ...spend, charge: { id, idHash, chainId, token, payer: subscriber, provider, facilitator } });
}
