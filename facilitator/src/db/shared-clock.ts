/**
 * The database's clock as this process can read it at once: what is written down for other processes to compare with (leases,
 * due times, expiries) must not depend on whose machine is fast or slow. For wall time only, never for chain time.
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
  /** told when the database could not be asked: what was known goes on */
  readonly onMiss: () => void;
}

/** How often it is asked again, against the drift of two clocks. */
const ASK_EVERY_MS = 60_000;

/** The embedded database lives in this process and has its clock. */
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

  /** @returns what the database's clock shows more than ours */
  async function ask(): Promise<number> {
    const askedMs = monotonicMs();
    const { rows } = await sql<{ now: number }>`select ${databaseNowMs} as now`.execute(store.db);
    return Number(rows[0]?.now) - (askedMs + monotonicMs()) / 2;
  }
}
