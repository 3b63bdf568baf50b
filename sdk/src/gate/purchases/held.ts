/** Holds a payment for one request: renews the lease while the handler runs, and settles exactly once. */
import { type Hex, randomRef, Unavailable } from "../../protocol";
import type { ClaimAct, ClaimOutcome, ClaimStore, StoredAnswer } from "./record";

export const LEASE_MS = 60_000;

const RENEW_MS = 20_000;

const RETRY_MS = 2_000;

export type ClaimEnd = Extract<ClaimAct["act"], "use" | "refund" | "release" | "withdraw">;

export interface HeldClaim {
  readonly paymentId: Hex;
  /** how many earlier requests of this payment ended without a result */
  readonly releases: number;
  /**
   * The first call decides; later ones wait for it.
   * @param answer of "use": kept with the claim, for replays
   * @throws Unavailable when it could not be written, or the hold was lost: then nothing may be served
   */
  settle(act: ClaimEnd, answer?: StoredAnswer): Promise<void>;
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
  const act = claimAct(request);
  const outcome = await request.store.claim(request.paymentId, act, request.nowSec);
  if (outcome.kind !== "acquired") return outcome;
  return { kind: "held", claim: heldClaim(request, act.owner, outcome.releases) };
}

/** Returns what claims a payment for one request. */
function claimAct({ keepUntilSec, nowMs }: Pick<ClaimRequest, "keepUntilSec" | "nowMs">) {
  return { act: "claim", owner: randomRef(), nowMs: nowMs(), leaseMs: LEASE_MS, keepUntilSec } as const;
}

/** Renews a claim that `owner` has acquired, until it is settled. */
function heldClaim({ store, paymentId, nowMs }: ClaimRequest, owner: string, releases: number): HeldClaim {
  let settled: Promise<void> | undefined;
  let renewal: NodeJS.Timeout | undefined;
  const renewIn = (delayMs: number): void => {
    renewal = setTimeout(async () => {
      // Retried soon when it fails: a lease that lapses may be taken over while this handler still runs.
      const renewed = await store
        .apply(paymentId, { act: "renew", owner, nowMs: nowMs(), leaseMs: LEASE_MS })
        .catch(() => undefined);
      if (!settled && renewed !== false) renewIn(renewed === undefined ? RETRY_MS : RENEW_MS);
    }, delayMs);
    renewal.unref();
  };
  renewIn(RENEW_MS);

  async function settle(how: ClaimEnd, answer?: StoredAnswer): Promise<void> {
    clearTimeout(renewal);
    const wasHeld = await store.apply(paymentId, { act: how, owner }, answer);
    // Another request has taken it over and serves it: this one must not serve it too.
    if (!wasHeld) throw new Unavailable("The hold on this payment was lost while it was served.", { retryAfterSec: 5 });
  }

  return {
    paymentId,
    releases,
    settle(how, answer) {
      settled ??= settle(how, answer);
      return settled;
    },
  };
}
