/**
 * Guards a pool's connections: translates their errors, closes a connection after an outage instead of reusing it, and
 * reports each outage to the database's health.
 */
import type { PostgresPool } from "kysely";
import { isDatabaseOutage, translateDatabaseError } from "./outage";

/** Interface that both drivers' clients share. */
interface Client {
  query(text: string, values: readonly unknown[]): Promise<unknown>;
  release(isBroken?: boolean): void;
}

interface Clients {
  connect(): Promise<Client>;
  end(): Promise<void>;
}

/** Receives the outages that statements meet. */
export interface DatabaseWatch {
  /** @param error the translated error */
  failed(error: unknown): void;
}

export function guardPool(pool: Clients, watch: DatabaseWatch): PostgresPool {
  function translated(error: unknown): unknown {
    const failure = translateDatabaseError(error);
    if (isDatabaseOutage(failure)) watch.failed(failure);
    return failure;
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
          const failure = translated(error);
          isBroken ||= isDatabaseOutage(failure);
          throw failure;
        }
      },
      release: () => client.release(isBroken),
    };
  }

  return { connect, end: () => pool.end() } as unknown as PostgresPool;
}
