/**
 * Keeps the planner's statistics in step with a table that fills. Without them it takes every index that begins with the
 * chain's id for a good one, and walks through all payments to find a single one: the embedded database never gathers
 * them by itself, a server only after its first minute.
 */
import { sql } from "kysely";
import type { Logger } from "pino";
import type { Store } from "./open";

export interface Statistics {
  /** So many rows more. */
  grew(rows: number): void;
}

const FIRST_ROWS = 100;

const GROWTH = 4;

const MOST_ROWS_BETWEEN = 200_000;

export function createStatistics({ store, log }: { readonly store: Store; readonly log: Logger }): Statistics {
  let rows = 0;
  let next = FIRST_ROWS;
  return {
    grew(more) {
      rows += more;
      if (rows < next) return;
      next = rows + Math.min(rows * (GROWTH - 1), MOST_ROWS_BETWEEN);
      // Nothing waits for it, and nothing is wrong without it.
      void sql`analyze payments, events, transactions, transaction_hashes`.execute(store.db).catch((error: unknown) => {
        log.warn({ reason: error instanceof Error ? error.message : "unknown" }, "statistics could not be gathered");
      });
    },
  };
}
