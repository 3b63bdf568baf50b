/**
 * Shares the queue among payers and providers when its payments wait long. Counts the rows, because several processes
 * admit payments.
 */
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import { CROWDED, FairShares, type Party } from "../lib/fair-shares";

export interface QueueSharesOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly monotonicMs: () => number;
}

/** How often the rows are counted. */
const COUNT_MS = 500;

export class QueueShares {
  readonly #options: QueueSharesOptions;
  #shares = new FairShares();
  #countedAtMs = Number.NEGATIVE_INFINITY;
  readonly #entering = new Set<Party>();

  constructor(options: QueueSharesOptions) {
    this.#options = options;
  }

  isCrowded(waitMs: number): boolean {
    return this.#fillAt(waitMs) >= CROWDED;
  }

  /** @param waitMs how long the next payment would wait, at least */
  mayEnter(party: Party, waitMs: number): boolean {
    return this.#shares.mayEnter(party, this.#fillAt(waitMs));
  }

  /** Counts a payment from its admission on. @returns the function to call when it is bound or refused */
  entering(party: Party): () => void {
    const own = { ...party };
    this.#entering.add(own);
    this.#shares.enter(own);
    return () => this.#entering.delete(own);
  }

  /** Counts the queued payments of each payer and provider, if they wait long and the last count is old. */
  async refresh(waitMs: number): Promise<void> {
    const { config, store, monotonicMs } = this.#options;
    if (monotonicMs() - this.#countedAtMs < COUNT_MS) return;
    if (!this.isCrowded(waitMs)) return this.#replace([]);
    const rows = await store.db
      .selectFrom("payments")
      .select(["payer", "pay_to as payee", (eb) => eb.fn.countAll<number>().as("queued")])
      .where("chain_id", "=", config.chainId)
      .where("state", "=", "queued")
      .groupBy(["payer", "pay_to"])
      .execute();
    this.#replace(rows);
    this.#countedAtMs = monotonicMs();
  }

  #replace(rows: readonly (Party & { readonly queued: number })[]): void {
    this.#shares = new FairShares();
    for (const { queued, ...party } of rows) this.#shares.enter(party, Number(queued));
    for (const party of this.#entering) this.#shares.enter(party);
  }

  #fillAt(waitMs: number): number {
    return waitMs / this.#options.config.maxQueueAgeMs;
  }
}
