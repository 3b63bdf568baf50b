/**
 * What became of transactions whose nonce is used: mined, told by a receipt of any signed form, or displaced by a
 * transaction that is not ours. Settlements are recorded with the block that is read; what that leaves out is asked for here.
 */
import type { Logger } from "pino";
import type { Hex } from "turnpike/protocol";
import type { ChainReader } from "../chain/chain-reader";
import type { Store } from "../db/open";
import type { KnownForm, OpenTransaction } from "../db/tables/relayer";
import type { Failpoint } from "../telemetry/failpoints";
import { markDisplaced, recordMined } from "./transactions";

export interface Receipts {
  /**
   * @param used their nonces are used
   * @returns one that another transaction has displaced, if there is any
   */
  record(
    used: readonly OpenTransaction[],
    forms: ReadonlyMap<string, readonly KnownForm[]>,
  ): Promise<OpenTransaction | undefined>;
}

export interface ReceiptsOptions {
  readonly store: Store;
  readonly chain: ChainReader;
  readonly log: Logger;
  readonly onStep: Failpoint;
  readonly monotonicMs: () => number;
  readonly blockTimeMs: number;
  /** For so long a used nonce may lack a receipt before it is certain that another used it. */
  readonly patienceMs: number;
}

/** A block is read within this time; a transaction without any log of interest waits for it in vain. */
const MAX_READING_MS = 1_000;

export function createReceipts(options: ReceiptsOptions): Receipts {
  const { store, chain, log, onStep, monotonicMs, patienceMs } = options;
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
    // A receipt from a block that the node does not have is none: the next round asks again.
    if ((await chain.block(receipt.blockNumber))?.hash !== receipt.blockHash) return true;
    await recordMined(store.db, row.id, receipt);
    onStep("mined");
    const { hash, blockNumber: block, success } = receipt;
    log.info({ purpose: row.purpose, hash, block, success }, "mined");
    store.wake.notify(`tx:${row.id}`);
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
          store.wake.notify(`tx:${row.id}`);
          displaced.push(row);
        }),
      );
      return displaced[0];
    },
  };
}
