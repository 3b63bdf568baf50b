/**
 * Keeps what an `upto` payment is charged in the claim store, from before it settles: after a crash the same amount is
 * settled again, never another one.
 */
import { ConfigError, type Hex, keccakText, parseAmount, TurnpikeError, Unavailable } from "../../protocol";
import { DAY_SEC } from "../../protocol/time";
import { holdClaim } from "../claims/held-claim";
import type { ClaimStore } from "../claims/rules";

export interface ChargedPurchase {
  readonly grantId: Hex;
  /** of the record, unix seconds */
  readonly keepUntilSec: number;
  readonly nowSec: number;
}

const keyOf = (grantId: Hex): Hex => keccakText(JSON.stringify(["charge", grantId]));

/** What is known of an earlier charge. */
export type RecordedCharge =
  | { readonly kind: "none" }
  | { readonly kind: "charged"; readonly amount: bigint }
  /** it was charged, and the amount is lost: nothing may settle */
  | { readonly kind: "lost" };

/** @throws ConfigError for a store that keeps no answers, and so no amounts */
export function requireChargeRecords(store: ClaimStore): void {
  if (store.served) return;
  throw new ConfigError('claims is a store without served(), which prices of type "upto" need: add it');
}

/** @throws Unavailable when the store does not answer */
async function findCharge(store: ClaimStore, grantId: Hex): Promise<RecordedCharge> {
  const found = await store.served?.(keyOf(grantId), Date.now());
  if (!found) return { kind: "none" };
  const amount = parseAmount(found.answer);
  return amount === undefined ? { kind: "lost" } : { kind: "charged", amount };
}

/**
 * Finds what an earlier run has charged, as one of these purchases, base units.
 * @returns undefined where none came to charge; "lost" where its amount is not known any more
 * @throws Unavailable when the store does not answer
 */
export async function findAnyCharge(store: ClaimStore, grantIds: readonly Hex[]): Promise<bigint | "lost" | undefined> {
  for (const grantId of grantIds) {
    const found = await findCharge(store, grantId);
    if (found.kind !== "none") return found.kind === "lost" ? "lost" : found.amount;
  }
  return undefined;
}

/** Stores the amount, and reads it back. @throws Unavailable when it is not there, or another amount is */
export async function storeCharge(
  store: ClaimStore,
  { grantId, keepUntilSec, nowSec }: ChargedPurchase,
  amount: bigint,
): Promise<void> {
  requireChargeRecords(store);
  const attempt = await holdClaim({ store, paymentId: keyOf(grantId), keepUntilSec, nowSec, nowMs: Date.now });
  if (attempt.kind === "running") {
    throw new TurnpikeError("ProofInFlight", undefined, { retryAfterSec: attempt.retryAfterSec });
  }
  if (attempt.kind === "held") {
    await attempt.claim.settle("use", { text: amount.toString(), nowMs: Date.now(), keepSec: DAY_SEC });
  }
  const stored = await findCharge(store, grantId);
  if (stored.kind === "charged" && stored.amount === amount) return;
  throw new Unavailable("What this payment is charged could not be recorded, so it was not settled.", {
    retryAfterSec: 2,
  });
}
