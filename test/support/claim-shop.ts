/** Sells numbered payments from a claim store, as gates that share it do. */
import { type Hex, keccakText, type TurnpikeError } from "turnpike/protocol";
import type { ClaimStore } from "../../sdk/src/gate/purchases/record";
import { fileClaims } from "../../sdk/src/gate/purchases/store";

export const PAYMENTS = 24;

/** Rotates after each line. */
export const openShop = (folder: string): ClaimStore => fileClaims({ folder, rotateBytes: 1 });

/** @returns whether it was sold: served by this call */
export async function sellOne(store: ClaimStore, payment: string, by: string): Promise<boolean> {
  const paymentId: Hex = keccakText(payment);
  const act = { act: "claim", owner: by, nowMs: 1, leaseMs: 1_000, keepUntilSec: 2_000_000_000 } as const;
  const { kind } = await store.claim(paymentId, act, 1_800_000_000);
  if (kind !== "acquired") return false;
  return store.apply(paymentId, { act: "use", owner: by });
}

export async function sellAll(store: ClaimStore, by: string): Promise<readonly number[]> {
  const sold: number[] = [];
  for (let i = 0; i < PAYMENTS; i++) {
    // While another process's lock counts, a claim is refused.
    const sells = await sellOne(store, `payment ${i}`, by).catch((error: TurnpikeError) => {
      if (error.code === "Unavailable") return false;
      throw error;
    });
    if (sells) sold.push(i);
    await new Promise(setImmediate);
  }
  return sold;
}
