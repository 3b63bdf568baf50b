/**
 * Provides the database's clock without a query. Times that processes compare (leases, due times, expiries) must not
 * depend on a machine's clock. For wall time only, never for chain time.
 */
import { sql } from "kysely";
import type { Store } from "./open";
import { databaseNowMs } from "./sql";

export interface SharedClock {
  /** unix milliseconds */
  nowMs(): number;
  stop(): void;
}

export interface SharedClockOptions {
  readonly store: Store;
  readonly monotonicMs: () => number;
  /** called when the database does not answer; the last known offset stays in use */
  readonly onMiss: () => void;
}

/** How often the offset is measured, against clock drift. */
const ASK_EVERY_MS = 60_000;

/** Starts the clock. The embedded database runs in this process and uses its clock. */
export async function startSharedClock({ store, monotonicMs, onMiss }: SharedClockOptions): Promise<SharedClock> {
  if (store.kind === "pglite") return { nowMs: () => Date.now(), stop: () => undefined };
  let aheadMs = await ask();
  const timer = setInterval(() => {
    ask().then((found) => {
      aheadMs = found;
    }, onMiss);
  }, ASK_EVERY_MS);
  timer.unref();
  return { nowMs: () => Math.round(monotonicMs() + aheadMs), stop: () => clearInterval(timer) };

  /** Measures the offset. @returns the database's clock minus this process's, in milliseconds */
  async function ask(): Promise<number> {
    const askedMs = monotonicMs();
    const { rows } = await sql<{ now: number }>`select ${databaseNowMs} as now`.execute(store.db);
    return Number(rows[0]?.now) - (askedMs + monotonicMs()) / 2;
  }
}
