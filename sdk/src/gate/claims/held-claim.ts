/** One request's hold on a payment: renews the lease while the handler runs, and is settled exactly once. */
import { type Hex, randomBytes, toBase64Url } from "../../protocol";
import type { ClaimAct, ClaimOutcome, ClaimStore } from "./rules";

export const LEASE_MS = 60_000;
const RENEW_MS = 20_000;

export type Settlement = Extract<ClaimAct["act"], "use" | "release" | "withdraw">;

export interface HeldClaim {
  readonly paymentId: Hex;
  /** The first call decides; later ones wait for it. @throws Unavailable when it could not be written */
  settle(act: Settlement): Promise<void>;
}

export type ClaimAttempt =
  | { readonly kind: "held"; readonly claim: HeldClaim }
  | Exclude<ClaimOutcome, { readonly kind: "acquired" }>;

export interface ClaimRequest {
  readonly store: ClaimStore;
  readonly paymentId: Hex;
  /** unix seconds, chain time */
  readonly keepUntilSec: number;
  readonly nowSec: number;
  /** the machine's clock */
  readonly nowMs: () => number;
}

export async function holdClaim(request: ClaimRequest): Promise<ClaimAttempt> {
  const { store, paymentId, keepUntilSec, nowSec, nowMs } = request;
  const owner = toBase64Url(randomBytes(12));
  const act = { act: "claim", owner, nowMs: nowMs(), leaseMs: LEASE_MS, keepUntilSec } as const;
  const outcome = await store.claim(paymentId, act, nowSec);
  if (outcome.kind !== "acquired") return outcome;
  const renewal = setInterval(() => {
    // A renewal that fails leaves the lease to lapse, which counts as a release: the payer loses nothing.
    store.apply(paymentId, { act: "renew", owner, nowMs: nowMs(), leaseMs: LEASE_MS }).catch(() => undefined);
  }, RENEW_MS);
  renewal.unref();
  let settled: Promise<void> | undefined;
  return {
    kind: "held",
    claim: {
      paymentId,
      settle(how) {
        if (!settled) {
          clearInterval(renewal);
          settled = store.apply(paymentId, { act: how, owner });
        }
        return settled;
      },
    },
  };
}
