/**
 * Finds the outcome of transactions whose nonce is used: mined, by a receipt of any signed form, or displaced by
 * another transaction. The indexer records settlements with their block; this asks for the receipts of all others.
 */
import type { Logger } from "pino";
import type { Hex } from "turnpike/protocol";
import type { ChainReader } from "../chain/chain-reader";
import type { Store } from "../db/open";
import type { KnownForm, OpenTransaction } from "../db/tables/relayer";
import type { Failpoint } from "../telemetry/failpoints";
import { countMined, type MiningMetrics, markDisplaced, recordMined } from "./transactions";

export interface Receipts {
  /**
   * Records outcomes.
   * @param used transactions whose nonces are used
   * @returns those that another transaction has displaced
   */
  record(
    used: readonly OpenTransaction[],
    forms: ReadonlyMap<string, readonly KnownForm[]>,
  ): Promise<readonly OpenTransaction[]>;
}

export interface ReceiptsOptions {
  readonly store: Store;
  readonly chain: ChainReader;
  readonly log: Logger;
  readonly onStep: Failpoint;
  readonly metrics?: MiningMetrics | undefined;
  readonly monotonicMs: () => number;
  readonly blockTimeMs: number;
}

/**
 * Blocks to wait for the receipt of a used nonce before another transaction counts as its user. Nodes behind one URL
 * may differ.
 */
const DISPLACED_AFTER_BLOCKS = 10;

/** How long a node may lag behind another one. */
export const patienceMsOf = ({ blockTimeMs }: { readonly blockTimeMs: number }): number =>
  Math.max(blockTimeMs * DISPLACED_AFTER_BLOCKS, 2_000);

/** A block is indexed within this time. A transaction without a relevant log is never recorded by the indexer. */
const MAX_READING_MS = 1_000;

export function createReceipts(options: ReceiptsOptions): Receipts {
  const { store, chain, log, onStep, metrics, monotonicMs } = options;
  const patienceMs = patienceMsOf(options);
  const readingMs = Math.min(options.blockTimeMs, MAX_READING_MS);
  const usedSinceMs = new Map<string, number>();
  const missingSinceMs = new Map<string, number>();

  function sinceMs(times: Map<string, number>, { id }: OpenTransaction): number {
    const nowMs = monotonicMs();
    const firstMs = times.get(id) ?? nowMs;
    times.set(id, firstMs);
    return nowMs - firstMs;
  }

  function forgetAllBut(used: readonly OpenTransaction[]): void {
    const ids = new Set(used.map(({ id }) => id));
    for (const times of [usedSinceMs, missingSinceMs])
      for (const id of times.keys()) if (!ids.has(id)) times.delete(id);
  }

  const isLeftToReader = (row: OpenTransaction): boolean =>
    row.purpose === "settle" && sinceMs(usedSinceMs, row) < readingMs;

  async function isMined(row: OpenTransaction, forms: readonly KnownForm[]): Promise<boolean> {
    const receipts = await Promise.all(forms.map((form) => chain.receipt(form.hash as Hex)));
    const receipt = receipts.find((found) => found !== undefined);
    if (!receipt) return false;
    // The node does not have the receipt's block, so the receipt does not count; the next round asks again.
    if ((await chain.block(receipt.blockNumber))?.hash !== receipt.blockHash) return true;
    countMined(await recordMined(store.db, row.id, receipt), metrics);
    onStep("mined");
    const { hash: transaction, blockNumber: block, success } = receipt;
    log.info({ purpose: row.purpose, transaction, block, success }, "mined");
    store.notifier.notify(`tx:${row.id}`);
    return true;
  }

  return {
    async record(used, forms) {
      forgetAllBut(used);
      const displaced: OpenTransaction[] = [];
      await Promise.all(
        used.map(async (row) => {
          if (isLeftToReader(row) || (await isMined(row, forms.get(row.id) ?? []))) return;
          if (sinceMs(missingSinceMs, row) <= patienceMs) return;
          await markDisplaced(store.db, row.id);
          store.notifier.notify(`tx:${row.id}`);
          displaced.push(row);
        }),
      );
      return displaced;
    },
  };
}
