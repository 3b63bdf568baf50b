/** What a key may pay for a transaction now: the chain's base fee against its ceilings, and what it has spent today. */
import type { FacilitatorConfig } from "../config";
import type { Store } from "../store/open";
import type { ChainReader } from "./chain-reader";
import { type Fees, firstFees } from "./fees";
import type { LeaseKey } from "./lease";
import { spentToday } from "./spending";

export const CEILING_BELOW_BASE_FEE = "the fee ceiling is below the base fee";
const DAY_CEILING_REACHED = "the day's fee ceiling is reached";

export interface FeeWatch {
  /** Asks, unless the last answer is younger. @returns the fees, or why nothing may be paid */
  look(maxAgeMs: number): Promise<Fees | string>;
  /** The last answer as long as it is good without asking: there is room in it for some full blocks. */
  known(): Fees | undefined;
}

export interface FeeWatchOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly chain: ChainReader;
  readonly of: LeaseKey;
  readonly monotonicMs: () => number;
}

const GOOD_FOR_BLOCKS = 3;

export function watchFees({ config, store, chain, of, monotonicMs }: FeeWatchOptions): FeeWatch {
  const goodForMs = config.blockTimeMs * GOOD_FOR_BLOCKS;
  let last: { readonly fees: Fees; readonly atMs: number } | undefined;

  const within = (ageMs: number): Fees | undefined =>
    last && monotonicMs() - last.atMs < ageMs ? last.fees : undefined;

  return {
    async look(maxAgeMs) {
      const recent = within(maxAgeMs);
      if (recent) return recent;
      const atMs = monotonicMs();
      const fees = firstFees((await chain.head()).baseFeeWei, config);
      const isSpent = (await spentToday(store, of, atMs)) > config.maxFeePerDayWei;
      last = fees && !isSpent ? { fees, atMs } : undefined;
      if (!fees) return CEILING_BELOW_BASE_FEE;
      return isSpent ? DAY_CEILING_REACHED : fees;
    },
    known: () => within(goodForMs),
  };
}
