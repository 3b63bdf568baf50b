/**
 * Puts a pool's connections behind one guard: their errors reach callers translated, a connection that met an outage is
 * closed instead of reused, and each outcome is reported to the health of the database.
 */
import type { PostgresPool } from "kysely";
import { isDatabaseOutage, translateDatabaseError } from "./outage";

/** What both drivers' clients have in common. */
interface Client {
  query(text: string, values: readonly unknown[]): Promise<unknown>;
  release(isBroken?: boolean): void;
}

interface Clients {
  connect(): Promise<Client>;
  end(): Promise<void>;
}

/** Receives what a statement met. */
export interface DatabaseWatch {
  /** @param error translated */
  failed(error: unknown): void;
}

export function guardPool(pool: Clients, watch: DatabaseWatch): PostgresPool {
  function translated(error: unknown): unknown {
    const told = translateDatabaseError(error);
    if (isDatabaseOutage(told)) watch.failed(told);
    return told;
  }

  async function connect() {
    let client: Client;
    try {
      client = await pool.connect();
    } catch (error) {
      throw translated(error);
    }
    let isBroken = false;
    return {
      async query(text: string, values: readonly unknown[]) {
        try {
          return await client.query(text, values);
        } catch (error) {
          const told = translated(error);
          isBroken ||= isDatabaseOutage(told);
          throw told;
        }
      },
      release: () => client.release(isBroken),
    };
  }

  return { connect, end: () => pool.end() } as unknown as PostgresPool;
}
