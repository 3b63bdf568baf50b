/** Checks what a key may pay for a transaction now: the base fee against the ceilings, and the fees of the last day. */
import { sql } from "kysely";
import type { ChainReader } from "../chain/chain-reader";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import { databaseNowMs } from "../db/sql";
import { type Fees, firstFees } from "./fees";
import type { LeaseKey } from "./lease";

export const CEILING_BELOW_BASE_FEE = "the fee ceiling is below the base fee";

export const DAY_CEILING_REACHED = "the day's fee ceiling is reached";

export interface FeeWatch {
  /**
   * Reads the base fee, unless the last answer is younger than `maxAgeMs`.
   * @returns the fees, or why nothing may be paid
   */
  read(maxAgeMs: number): Promise<Fees | string>;
  /** Returns the last answer while it is recent enough to use: it covers a few full blocks. */
  known(): Fees | undefined;
  /**
   * Returns the wei that the key may still commit to fees today, as far as `wanted` matters.
   * @param wanted wei of the next transaction
   */
  leftToday(wanted: bigint): Promise<bigint>;
  /** The same without a query: what is left of the last answer. */
  knownLeftToday(): bigint;
  /** Counts fees that were committed since the sum was read. */
  committed(wei: bigint): void;
}

export interface FeeWatchOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly chain: ChainReader;
  readonly of: LeaseKey;
  readonly monotonicMs: () => number;
}

const GOOD_FOR_BLOCKS = 3;

/** The sum of a busy day reads many rows. */
const SUM_GOOD_FOR_MS = 30_000;

/** When little is left: transactions that were mined since have cost less than their maximum. */
const SUM_GOOD_FOR_MS_WHEN_SHORT = 2_000;

export function watchFees({ config, store, chain, of, monotonicMs }: FeeWatchOptions): FeeWatch {
  const goodForMs = config.blockTimeMs * GOOD_FOR_BLOCKS;
  let last: { readonly fees: Fees; readonly atMs: number } | undefined;
  let spent: { wei: bigint; readonly atMs: number } | undefined;

  const within = (ageMs: number): Fees | undefined =>
    last && monotonicMs() - last.atMs < ageMs ? last.fees : undefined;

  const knownLeft = (): bigint => (spent ? config.maxFeePerDayWei - spent.wei : 0n);

  async function leftToday(wanted: bigint): Promise<bigint> {
    const ageMs = spent ? monotonicMs() - spent.atMs : Number.POSITIVE_INFINITY;
    const isShort = wanted > knownLeft();
    if (ageMs >= (isShort ? SUM_GOOD_FOR_MS_WHEN_SHORT : SUM_GOOD_FOR_MS)) {
      const atMs = monotonicMs();
      spent = { wei: await spentToday(store, of), atMs };
    }
    return knownLeft();
  }

  return {
    async read(maxAgeMs) {
      const recent = within(maxAgeMs);
      if (recent) return recent;
      const atMs = monotonicMs();
      const fees = firstFees((await chain.head()).baseFeeWei, config);
      const isSpent = (await leftToday(1n)) <= 0n;
      last = fees && !isSpent ? { fees, atMs } : undefined;
      if (!fees) return CEILING_BELOW_BASE_FEE;
      return isSpent ? DAY_CEILING_REACHED : fees;
    },
    known: () => within(goodForMs),
    leftToday,
    knownLeftToday: knownLeft,
    committed(wei) {
      if (spent) spent.wei += wei;
    },
  };
}

const DAY_MS = 24 * 60 * 60 * 1_000;

/**
 * Returns the wei committed in the last 24 hours. Mined transactions count with their cost, others with the maximum of
 * their dearest form, because each of them may be mined.
 */
async function spentToday(store: Store, of: LeaseKey): Promise<bigint> {
  const { rows } = await sql<{ wei: string | null }>`
    select sum(case t.status when 'mined' then t.gas_used * t.gas_price_wei when 'stored' then t.gas_limit * (
      select max(h.max_fee_wei) from transaction_hashes h where h.transaction_id = t.id) end) as wei
    from transactions t
    where t.chain_id = ${of.chainId} and t.key = ${of.key} and t.stored_at_ms > ${databaseNowMs} - ${DAY_MS}::bigint`.execute(
    store.db,
  );
  return BigInt(rows[0]?.wei ?? 0);
}
