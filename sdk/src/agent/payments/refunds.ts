/**
 * Credits refunds to the budget of the payment or charge that they refund. A Facilitator names a refund, and only the
 * agent's own RPC proves it. Signs nothing.
 */
import { type RefundNaming, refundAccountDigest } from "../../facilitator/refund-accounts";
import type { RefundList } from "../../facilitator/refunds";
import { type Address, type Hex, isTurnpikeError, recoverSigner, refundNonce, signatureWithV } from "../../protocol";
import { DAY_SEC } from "../../protocol/periods";
import type { AgentContext } from "../core/context";
import type { Facilitator } from "../core/facilitators";
import type { AgentLedger } from "../ledger/ledger";
import type { PaymentEntry } from "../ledger/ledger-store";
import { type ChargeView, chargeViewOf, type PaymentView, viewOf } from "./view";

/** What a refund has freed the budget of. */
export type Credited = PaymentView | ChargeView;

/**
 * Looks for refunds of the last day's payments and of the charges that the agent signed for, which the budget still
 * counts. A refund frees the budget of its own payment's day, never of a later one. Renewals and debits are not in the
 * budget, and neither are refunds of them.
 * @returns the payments and charges that were credited by this call
 */
export async function creditRefunds(context: AgentContext): Promise<Credited[]> {
  const ledger = await context.ledger();
  const sinceSec = context.effects.clock.nowSec() - DAY_SEC;
  const isOpen = ({ atSec }: { readonly atSec: number }): boolean => atSec > sinceSec;
  const payments = ledger.payments().filter((entry) => isPaid(entry) && isOpen(entry));
  const charges = ledger.spends().filter((entry) => entry.state === "held" && entry.charge && isOpen(entry));
  const works = [
    ...payments.map(({ id }) => ({ id, work: () => creditPayment(context, ledger, id) })),
    ...charges.map(({ id }) => ({ id, work: () => creditCharge(context, ledger, id) })),
  ];
  const credited: Credited[] = [];
  for (const { id, work } of works) {
    if (!ledger.lock(id)) continue;
    try {
      const view = await work();
      if (view) credited.push(view);
    } catch (error) {
      // Nothing is proven: it counts in full, and the next call looks again.
      if (!isTurnpikeError(error)) throw error;
    } finally {
      ledger.unlock(id);
    }
  }
  return credited;
}

const isPaid = ({ state }: PaymentEntry): boolean => state === "settled" || state === "served";

async function creditPayment(context: AgentContext, ledger: AgentLedger, id: Hex): Promise<PaymentView | undefined> {
  const entry = ledger.payment(id);
  if (!entry) return undefined;
  const isRefunder = ({ account, naming }: Refund): boolean =>
    account === entry.payTo || (naming !== undefined && isNamedByPayee(entry, account, naming));
  const refunds = await provenRefunds(context, { ...entry, isRefunder }, async ({ client }) => {
    const found = await client.payment(id);
    return found.kind === "found" ? (found.value.refunds ?? []) : [];
  });
  if (!refunds) return undefined;
  const next = { ...entry, refunds };
  await ledger.put(next);
  return viewOf(next);
}

async function creditCharge(context: AgentContext, ledger: AgentLedger, id: string): Promise<ChargeView | undefined> {
  const entry = ledger.spend(id);
  if (!entry?.charge) return undefined;
  const { charge } = entry;
  const isRefunder = ({ account }: Refund): boolean => account === entry.payTo || account === charge.provider;
  const refunded = { ...charge, refunds: entry.refunds, isRefunder };
  const refunds = await provenRefunds(context, refunded, async ({ client }) => {
    const found = await client.refunds(charge.id);
    return found.kind === "found" ? found.value.refunds : [];
  });
  if (!refunds) return undefined;
  const next = { ...entry, refunds };
  await ledger.put(next);
  return chargeViewOf(next, charge.idHash);
}

type Refunds = NonNullable<PaymentEntry["refunds"]>;

type Refund = RefundList["refunds"][number];

interface RefundedEntry {
  /** what the refunds are counted under */
  readonly id: Hex;
  readonly chainId: number;
  readonly token: Address;
  readonly payer: Address;
  /** whether the refund comes from an account that may refund it */
  readonly isRefunder: (refund: Refund) => boolean;
  readonly facilitator?: string | undefined;
  readonly refunds?: Refunds | undefined;
}

/** Returns the entry's refunds with those that are new; undefined when none is new. @throws Unavailable */
async function provenRefunds(
  context: AgentContext,
  { id, chainId, token, payer, isRefunder, facilitator: named, refunds: known }: RefundedEntry,
  reported: (facilitator: Facilitator) => Promise<readonly Refund[]>,
): Promise<Refunds | undefined> {
  const chain = context.chainOf(chainId);
  if (!chain) return undefined;
  const refunds: Refunds = { ...known };
  const before = Object.keys(refunds).length;
  for (const facilitator of context.facilitators.inOrder(context.facilitators.find(named))) {
    for (const refund of await reported(facilitator)) {
      const { index, account, amount, transaction } = refund;
      if (refunds[index] !== undefined || !isRefunder(refund)) continue;
      const transfer = { token, from: account, to: payer, amount };
      const nonce: Hex = refundNonce(id, index);
      if (await chain.hasTransferred(transaction, { ...transfer, nonce })) refunds[index] = amount.toString();
    }
  }
  return Object.keys(refunds).length > before ? refunds : undefined;
}

/** Returns whether the payee has named the account for automatic refunds, by its own key. */
function isNamedByPayee({ payTo, token, chainId }: PaymentEntry, account: Address, naming: RefundNaming): boolean {
  const { signature, ...terms } = naming;
  if (terms.account !== account || terms.token !== token) return false;
  const digest = refundAccountDigest({ ...terms, provider: payTo, chainId });
  return recoverSigner(digest, signatureWithV(signature)) === payTo;
}
