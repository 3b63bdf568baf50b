/**
 * Guards a pool's connections: translates their errors, closes a connection after an outage instead of reusing it, and
 * reports each outage to the database's health.
 */
import type { PostgresPool } from "kysely";
import { activeSpan } from "../lib/active-span";
import { isDatabaseOutage, translateDatabaseError } from "./outage";

/** What a statement writes, else what it reads first. A lock and the update of a conflict name no table. */
const WRITTEN = /\b(?:(insert) into|(?<!\b(?:for|key|do) )(update)|(delete) from) "?(\w+)/i;
const READ = /\bfrom "?(\w+)\b(?!\()/i;

/** Begins a part of the active span that has the statement's summary, and nothing of its text or values. */
function beginStatement(text: string, system: string): ((error?: unknown) => void) | undefined {
  const span = activeSpan();
  if (!span) return undefined;
  const summary = summaryOf(text);
  return span.begin(summary, { "db.system.name": system, "db.query.summary": summary });
}

function summaryOf(text: string): string {
  const [, insert, update, remove, written] = WRITTEN.exec(text) ?? [];
  const verb = insert ?? update ?? remove;
  if (verb !== undefined) return `${verb.toUpperCase()} ${written}`;
  const [, read] = READ.exec(text) ?? [];
  return read === undefined ? (/\w+/.exec(text)?.[0] ?? "statement").toUpperCase() : `SELECT ${read}`;
}

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
  failed(error: unknown): void;
}

/** @param system name of the database in traces */
export function guardPool(pool: Clients, watch: DatabaseWatch, system: string): PostgresPool {
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
        const ended = beginStatement(text, system);
        try {
          const result = await client.query(text, values);
          ended?.();
          return result;
        } catch (error) {
          const failure = translated(error);
          ended?.(failure);
          isBroken ||= isDatabaseOutage(failure);
          throw failure;
        }
      },
      release: () => client.release(isBroken),
    };
  }

  return { connect, end: () => pool.end() } as unknown as PostgresPool;
}
