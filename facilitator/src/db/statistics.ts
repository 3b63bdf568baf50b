/**
 * Keeps the query planner's statistics up to date while tables fill. Without them the planner takes every index that
 * begins with the chain's id for a good one, and reads all rows to find one. The embedded database never analyzes by
 * itself, a server only after its first minute.
 */
import { sql } from "kysely";
import type { Logger } from "pino";
import type { Store } from "./open";

export interface Statistics {
  /** Adds to the number of rows; analyzes the tables once they have grown enough. */
  grew(rows: number): void;
}

const FIRST_ROWS = 100;

const GROWTH = 4;

const MOST_ROWS_BETWEEN = 200_000;

export interface StatisticsOptions {
  readonly store: Store;
  readonly log: Logger;
  /** that fill together */
  readonly tables: readonly string[];
}

export function createStatistics({ store, log, tables }: StatisticsOptions): Statistics {
  const names = sql.join(tables.map((table) => sql.table(table)));
  let rows = 0;
  let next = FIRST_ROWS;
  return {
    grew(more) {
      rows += more;
      if (rows < next) return;
      next = rows + Math.min(rows * (GROWTH - 1), MOST_ROWS_BETWEEN);
      // Nothing waits for it, and nothing is wrong without it.
      void sql`analyze ${names}`.execute(store.db).catch((error: unknown) => {
        log.warn({ reason: error instanceof Error ? error.message : "unknown" }, "statistics could not be updated");
      });
    },
  };
}
