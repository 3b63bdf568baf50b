/**
 * Adapts the embedded database to a `pg` pool of one connection, so that one dialect of the query builder serves both.
 */
import type { PGlite } from "@electric-sql/pglite";

interface PooledClient {
  query(sql: string, parameters: readonly unknown[]): Promise<{ command: string; rowCount: number; rows: unknown[] }>;
  release(): void;
}

export function pglitePool(lite: PGlite): { connect(): Promise<PooledClient>; end(): Promise<void> } {
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
          // Without parameters the simple protocol is enough, at a third of the cost; every transaction begins and ends
          // that way.
          const [result] = parameters.length === 0 ? await lite.exec(sql) : [await lite.query(sql, [...parameters])];
          if (!result) return { command: "", rowCount: 0, rows: [] };
          const command = sql.trimStart().slice(0, 6).toUpperCase();
          return { command, rowCount: result.affectedRows ?? 0, rows: result.rows };
        },
        release,
      };
    },
    end: () => lite.close(),
  };
}
