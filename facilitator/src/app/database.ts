/** Opens the database with its clock and its health, which all chains of a process share. */
import type { Logger } from "pino";
import type { FacilitatorConfig } from "../config";
import { HealthWatch, type Superseded } from "../db/health";
import { openStore, type Store } from "../db/open";
import { type SharedClock, startSharedClock } from "../db/shared-clock";

export interface Database {
  readonly store: Store;
  readonly health: Pick<HealthWatch, "health">;
  /** wall time shared by all processes on the database */
  readonly wallClock: Pick<SharedClock, "nowMs">;
  stop(): Promise<void>;
}

/** @throws Unavailable during an outage */
export async function openDatabase(
  config: FacilitatorConfig,
  log: Logger,
  onSuperseded?: Superseded,
): Promise<Database> {
  const monotonicMs = (): number => performance.now();
  const health = new HealthWatch(monotonicMs, onSuperseded);
  const store = await openStore(config.database, { timeoutMs: config.databaseTimeoutMs, watch: health });
  let wallClock: SharedClock | undefined;
  const stop = async (): Promise<void> => {
    wallClock?.stop();
    try {
      await health.stop();
    } finally {
      await store.close();
    }
  };
  try {
    await health.start(store, config.chainId);
    wallClock = await startSharedClock({
      store,
      monotonicMs,
      onMiss: () => log.warn("the database's clock cannot be read: the database is unavailable"),
    });
    return { store, health, wallClock, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
