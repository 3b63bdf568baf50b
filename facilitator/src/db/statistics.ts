/**
 * Keeps the query planner's statistics up to date while tables grow. Without statistics the planner picks any index
 * that starts with the chain id, and reads all rows to find one. The embedded database never analyzes by itself, and a
 * server only after its first minute.
 */
import { sql } from "kysely";
import type { Logger } from "pino";
import type { Store } from "./open";

export interface Statistics {
  /** Counts new rows, and analyzes the tables once they have grown enough. */
  grew(rows: number): void;
}

const FIRST_ROWS = 100;

const GROWTH = 4;

const MOST_ROWS_BETWEEN = 200_000;

export interface StatisticsOptions {
  readonly store: Store;
  readonly log: Logger;
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
      // Runs in the background; correctness does not depend on it.
      void sql`analyze ${names}`.execute(store.db).catch((error: unknown) => {
        log.warn({ reason: error instanceof Error ? error.message : "unknown" }, "statistics could not be updated");
      });
    },
  };
}
