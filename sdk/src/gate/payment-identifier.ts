/**
 * `payment-identifier` of x402 version 2: one id of one payer names one payment, for as long as that is remembered. A
 * second payment under the same id is refused before any money moves. The id also opens the answer that is kept for it.
 */
import { type Address, keccakText, TurnpikeError } from "../protocol";
import { holdClaim } from "./claims/held-claim";
import type { ClaimStore } from "./claims/rules";
import type { OneTimePayment } from "./payment";

export interface Binding {
  readonly store: ClaimStore;
  readonly id: string;
  readonly payer: Address;
  readonly paymentId: OneTimePayment["paymentId"];
  readonly keepUntilSec: number;
  readonly nowSec: number;
}

/**
 * Two records that never become free: "this payment has this id", and "this id is taken".
 * @throws PayloadConflict when another payment has the id, ProofInFlight while another one is taking it
 */
export async function bindIdentifier({ store, id, payer, paymentId, keepUntilSec, nowSec }: Binding): Promise<void> {
  const named = keccakText(JSON.stringify(["payment-identifier", payer, id]));
  const bound = keccakText(JSON.stringify(["payment-identifier", payer, id, paymentId]));
  const claim = (key: OneTimePayment["paymentId"]) =>
    holdClaim({ store, paymentId: key, keepUntilSec, nowSec, nowMs: Date.now });
  const mine = await claim(bound);
  if (mine.kind === "used") return;
  if (mine.kind === "running") throw inFlight(mine.retryAfterSec);
  const taken = await claim(named);
  if (taken.kind === "held") {
    // In this order: a process that dies between them leaves an id that serves nobody, never one that serves two.
    await taken.claim.settle("use");
    await mine.claim.settle("use");
    return;
  }
  await mine.claim.settle("withdraw");
  if (taken.kind === "running") throw inFlight(taken.retryAfterSec);
  throw new TurnpikeError("PayloadConflict", "This payment-identifier was used for another payment.");
}

const inFlight = (retryAfterSec: number) => new TurnpikeError("ProofInFlight", undefined, { retryAfterSec });
