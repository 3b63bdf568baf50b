/** Checks what a key may pay for a transaction now: the base fee against the ceilings, and the fees spent today. */
import { sql } from "kysely";
import type { ChainReader } from "../chain/chain-reader";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import { databaseNowMs } from "../db/sql";
import { type Fees, firstFees } from "./fees";
import type { LeaseKey } from "./lease";

export const CEILING_BELOW_BASE_FEE = "the fee ceiling is below the base fee";

const DAY_CEILING_REACHED = "the day's fee ceiling is reached";

export interface FeeWatch {
  /**
   * Reads the base fee, unless the last answer is younger than `maxAgeMs`.
   * @returns the fees, or why nothing may be paid
   */
  read(maxAgeMs: number): Promise<Fees | string>;
  /** Returns the last answer while it is recent enough to use: it covers a few full blocks. */
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
    async read(maxAgeMs) {
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

const DAY_MS = 24 * 60 * 60 * 1_000;

const FRESH_MS = 30_000;

const known = new WeakMap<Store, Map<string, { wei: bigint; atMs: number }>>();

/**
 * Returns the wei spent in the last 24 hours; read every 30 s. Mined transactions count with their cost, others with
 * their maximum.
 */
export async function spentToday(store: Store, of: LeaseKey, nowMs: number): Promise<bigint> {
  const byKey = known.get(store) ?? new Map<string, { wei: bigint; atMs: number }>();
  known.set(store, byKey);
  const fresh = byKey.get(of.key);
  if (fresh && nowMs - fresh.atMs < FRESH_MS) return fresh.wei;
  const { rows } = await sql<{ wei: string | null }>`
    select sum(case when t.status = 'mined' then t.gas_used * t.gas_price_wei else t.gas_limit * h.max_fee_wei end) as wei
    from transactions t join transaction_hashes h on h.hash = t.hash
    where t.chain_id = ${of.chainId} and t.key = ${of.key} and t.stored_at_ms > ${databaseNowMs} - ${DAY_MS}::bigint`.execute(
    store.db,
  );
  const wei = BigInt(rows[0]?.wei ?? 0);
  byKey.set(of.key, { wei, atMs: nowMs });
  return wei;
}
