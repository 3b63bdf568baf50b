/** The events of a subscription's money: what each was for, and how a refund of it names it. */
import type { Scheme } from "turnpike/facilitator";
import type { Hex, RefundTarget } from "turnpike/protocol";
import { literals } from "../db/sql";
import type { EventRow } from "../db/tables/events";

/** Types of events, and the payload field with the amount. */
export const CHARGES = [
  ["subscription.created", "signup", "charged"],
  ["subscription.renewed", "renewal", "charged"],
  ["subscription.resumed", "resume", "charged"],
  ["subscription.plan_changed", "plan-change", "charged"],
  ["allowance.debited", "overage", "amount"],
] as const satisfies readonly (readonly [string, Scheme, string])[];

/** The types, in SQL. */
export const CHARGE_TYPES = literals(CHARGES.map(([type]) => type));

export interface Charge {
  readonly scheme: Scheme;
  readonly amount: string;
  readonly object_id: string;
  readonly version: number;
  readonly paid_through: number;
  readonly debit_index: number | null;
}

/** @returns undefined for an event that moved nothing */
export function chargeOf({ type, object_id, payload }: EventRow): Charge | undefined {
  const [, scheme, field] = CHARGES.find(([name]) => name === type) ?? [];
  const amount = field && payload[field];
  if (!scheme || typeof amount !== "string" || amount === "0") return undefined;
  const debitIndex = scheme === "overage" ? Number(payload.index) : null;
  return {
    scheme,
    amount,
    object_id,
    version: Number(payload.version),
    paid_through: Number(payload.paidThrough),
    debit_index: debitIndex,
  };
}

export function targetOf(charge: Omit<Charge, "scheme" | "amount">): RefundTarget {
  const idHash = charge.object_id as Hex;
  if (charge.debit_index !== null) return { type: "debit", idHash, index: Number(charge.debit_index) };
  return { type: "charge", idHash, version: charge.version, paidThrough: Number(charge.paid_through) };
}
