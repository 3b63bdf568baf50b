/**
 * Credits refunds to the budget of the payment that they refund. A Facilitator names a refund, and only the agent's own
 * RPC proves it. Signs nothing.
 */
import { type RefundNaming, refundAccountDigest } from "../../facilitator/refund-accounts";
import { type Address, type Hex, isTurnpikeError, recoverSigner, refundNonce } from "../../protocol";
import { DAY_SEC } from "../../protocol/time";
import type { AgentContext } from "../core/context";
import type { AgentLedger } from "../ledger/ledger";
import type { PaymentEntry } from "../ledger/ledger-store";
import { type PaymentView, viewOf } from "./view";

/**
 * Looks for refunds of the payments of the last day, which the budget still counts. A refund frees the budget of its
 * own payment's day, never of a later one.
 * @returns the payments that were credited by this call
 */
export async function creditRefunds(context: AgentContext): Promise<PaymentView[]> {
  const ledger = await context.ledger();
  const sinceSec = context.effects.clock.nowSec() - DAY_SEC;
  const credited: PaymentView[] = [];
  for (const { id } of ledger.payments().filter((entry) => isOpen(entry, sinceSec))) {
    if (!ledger.lock(id)) continue;
    try {
      const entry = ledger.payment(id);
      const refunds = entry && (await provenRefunds(context, entry));
      if (entry && refunds) credited.push(await credit(ledger, entry, refunds));
    } catch (error) {
      // Nothing is proven: the payment counts in full, and the next call looks again.
      if (!isTurnpikeError(error)) throw error;
    } finally {
      ledger.unlock(id);
    }
  }
  return credited;
}

type Refunds = NonNullable<PaymentEntry["refunds"]>;

const isOpen = ({ state, atSec }: PaymentEntry, sinceSec: number): boolean =>
  (state === "settled" || state === "served") && atSec > sinceSec;

async function credit(ledger: AgentLedger, entry: PaymentEntry, refunds: Refunds): Promise<PaymentView> {
  const next = { ...entry, refunds };
  await ledger.put(next);
  return viewOf(next);
}

/** Returns the payment's refunds with those that are new; undefined when none is new. @throws Unavailable */
async function provenRefunds(context: AgentContext, entry: PaymentEntry): Promise<Refunds | undefined> {
  const chain = context.chainOf(entry.chainId);
  if (!chain) return undefined;
  const refunds: Refunds = { ...entry.refunds };
  const before = Object.keys(refunds).length;
  for (const { client } of context.facilitators.inOrder(context.facilitators.find(entry.facilitator))) {
    const found = await client.payment(entry.id);
    for (const refund of found.kind === "found" ? (found.value.refunds ?? []) : []) {
      const { index, account, amount, transaction, naming } = refund;
      if (refunds[index] !== undefined) continue;
      if (account !== entry.payTo && !(naming && isNamedByPayee(entry, account, naming))) continue;
      const transfer = { token: entry.token, from: account, to: entry.payer, amount };
      const nonce: Hex = refundNonce(entry.id, index);
      if (await chain.hasTransferred(transaction, { ...transfer, nonce })) refunds[index] = amount.toString();
    }
  }
  return Object.keys(refunds).length > before ? refunds : undefined;
}

/** Returns whether the payee has named the account for automatic refunds, by its own key. */
function isNamedByPayee({ payTo, token, chainId }: PaymentEntry, account: Address, naming: RefundNaming): boolean {
  const { signature, ...terms } = naming;
  if (terms.account !== account || terms.token !== token) return false;
  return recoverSigner(refundAccountDigest({ ...terms, provider: payTo, chainId }), signature) === payTo;
}
