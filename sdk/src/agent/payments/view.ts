import type { Address, Hex } from "../../protocol";
import { DAY_SEC } from "../../protocol/periods";
import type { AgentContext } from "../core/context";
import { refundedAmount } from "../ledger/ledger";
import type { PaymentEntry, SpendEntry } from "../ledger/ledger-store";
import { type PaymentReceipt, receiptFor } from "./receipt";

/** One payment that the ledger knows, without its secrets. */
export interface PaymentView extends PaymentReceipt {
  readonly state: PaymentEntry["state"];
  /** when its budget was reserved, unix seconds */
  readonly atSec: number;
  /** credited to its budget by proven refunds, base units */
  readonly refunded: bigint;
}

export const viewOf = (entry: PaymentEntry): PaymentView => ({
  ...receiptFor(entry, false),
  state: entry.state,
  atSec: entry.atSec,
  refunded: refundedAmount(entry),
});

/** A charge of a subscription that the agent signed for: a signup's, a plan change's or a resumption's. */
export interface ChargeView {
  /** the subscription's public name */
  readonly idHash: Hex;
  readonly payTo: Address;
  /** what was reserved for it, base units */
  readonly amount: bigint;
  /** when its budget was reserved, unix seconds */
  readonly atSec: number;
  /** credited to its budget by proven refunds, base units */
  readonly refunded: bigint;
}

export const chargeViewOf = (entry: SpendEntry, idHash: Hex): ChargeView => ({
  idHash,
  payTo: entry.payTo,
  amount: BigInt(entry.amount),
  atSec: entry.atSec,
  refunded: refundedAmount(entry),
});

/** Returns the subscription that a reservation's id names: `signup:<idHash>` or `change:<idHash>:<version>`. */
export const idHashOfSpend = (id: string): Hex => (id.split(":")[1] ?? id) as Hex;

/** The budget of the last 24 hours, base units. */
export interface BudgetView {
  readonly perDay: bigint;
  readonly perPayee: bigint | undefined;
  /** reserved and spent by every agent with this ledger, less proven refunds */
  readonly spent: bigint;
  /** what may still be spent now */
  readonly remaining: bigint;
}

export async function budget({ ledger, policy, effects }: AgentContext): Promise<BudgetView> {
  const { perDay, perPayee } = policy.limits;
  const spent = (await ledger()).spentSince({ sinceSec: effects.clock.nowSec() - DAY_SEC });
  return { perDay, perPayee, spent, remaining: spent < perDay ? perDay - spent : 0n };
}
