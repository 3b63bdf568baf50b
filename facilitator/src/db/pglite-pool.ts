/**
 * Adapts the embedded database to a `pg` pool of one connection, so that one dialect of the query builder serves both.
 */
import type { PGlite } from "@electric-sql/pglite";
import { Unavailable } from "turnpike/protocol";

interface PooledClient {
  query(sql: string, parameters: readonly unknown[]): Promise<{ command: string; rowCount: number; rows: unknown[] }>;
  release(): void;
}

/** @param isOwn whether this process has the database's folder; after a pause another one may have opened it */
export function pglitePool(
  lite: PGlite,
  isOwn: () => boolean,
): { connect(): Promise<PooledClient>; end(): Promise<void> } {
  let busy: Promise<void> = Promise.resolve();
  return {
    async connect() {
      const before = busy;
      let release = (): void => undefined;
      busy = new Promise((resolve) => {
        release = resolve;
      });
      await before;
      return {
        async query(sql, parameters) {
          if (!isOwn()) throw new Unavailable("Another process has taken the embedded database's folder over.");
          // Without parameters the simple protocol is enough, at a third of the cost; every transaction begins and ends
          // that way.
          const [result] = parameters.length === 0 ? await lite.exec(sql) : [await lite.query(sql, [...parameters])];
          if (!result) return { command: "", rowCount: 0, rows: [] };
          return { command: commandOf(sql), rowCount: result.affectedRows ?? 0, rows: result.rows };
        },
        release,
      };
    },
    // Closing writes to the folder too.
    end: async () => {
      if (isOwn()) await lite.close();
    },
  };
}

/**
 * Names what a statement does, as PostgreSQL reports it: the query builder counts the rows of inserts, updates and deletes
 * alone. A `with` may begin any of them, and PGlite counts no rows of one that only reads.
 */
function commandOf(sql: string): string {
  const word = sql.trimStart().slice(0, 6).toUpperCase();
  return word.startsWith("WITH") ? "UPDATE" : word;
}
