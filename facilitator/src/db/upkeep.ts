/**
 * Deletes rows that are no longer needed, in the background: in short transactions of few rows, by one process at a time.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { sql } from "kysely";
import type { Logger } from "pino";
import { repeat, type Worker } from "../lib/loop";
import { createRoleLease } from "./leases";
import type { Store } from "./open";
import { isDatabaseOutage } from "./outage";

export interface UpkeepTask {
  /** for the log: "deleted old ..." */
  readonly name: string;
  readonly tables: readonly string[];
  /** Runs one short transaction. @returns the number of rows it handled; 0 when nothing is left to do */
  run(): Promise<number>;
}

export interface UpkeepOptions {
  readonly store: Store;
  readonly chainId: number;
  readonly log: Logger;
  readonly tasks: readonly UpkeepTask[];
  readonly everyMs?: number;
  /** receives, after each round of a task, since when its rows wait and why; undefined: they do not */
  readonly onRound?: (task: string, wait: UpkeepWait | undefined) => void;
}

export interface UpkeepWait {
  readonly sec: number;
  readonly reason: string;
}

function reasonOf(error: unknown): string {
  if (isDatabaseOutage(error)) return "database";
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return typeof code === "string" && /^E[A-Z]+$/.test(code) ? code : "fault";
}

const EVERY_MS = 60_000;

/** Each batch is followed by a pause of this many times its duration, so that payments have the database. */
const REST = 4;

const MIN_REST_MS = 20;

/** The embedded database has no autovacuum: it vacuums after this many rows. */
const VACUUM_ROWS = 10_000;

export function startUpkeep(options: UpkeepOptions): Worker {
  const { store, chainId, log, tasks, everyMs = EVERY_MS, onRound = () => undefined } = options;
  const lease = createRoleLease({ store, chainId, role: "upkeep" });
  const ending = new AbortController();
  const unvacuumed = new Map<UpkeepTask, number>();
  const failingSince = new Map<UpkeepTask, number>();

  const pause = (ms: number): Promise<void> => sleep(ms, undefined, { signal: ending.signal }).catch(() => undefined);

  async function runAll(task: UpkeepTask): Promise<void> {
    let rows = 0;
    while (!ending.signal.aborted && (await lease.acquire())) {
      const startedMs = performance.now();
      const handled = await task.run();
      rows += handled;
      if (handled === 0) break;
      await pause(Math.max(MIN_REST_MS, REST * (performance.now() - startedMs)));
    }
    if (rows > 0) log.info({ rows }, `deleted old ${task.name}`);
    if (store.kind === "pglite") await vacuum(task, rows);
  }

  async function vacuum(task: UpkeepTask, rows: number): Promise<void> {
    const all = (unvacuumed.get(task) ?? 0) + rows;
    unvacuumed.set(task, all < VACUUM_ROWS ? all : 0);
    if (all < VACUUM_ROWS) return;
    for (const table of task.tables) await sql`vacuum ${sql.table(table)}`.execute(store.db);
  }

  const worker = repeat(
    async () => {
      for (const task of tasks) {
        const done = (): void => {
          failingSince.delete(task);
          onRound(task.name, undefined);
        };
        await runAll(task).then(done, (error: unknown) => {
          const sinceMs = failingSince.get(task) ?? performance.now();
          failingSince.set(task, sinceMs);
          onRound(task.name, { sec: Math.round((performance.now() - sinceMs) / 1_000), reason: reasonOf(error) });
          // Nothing waits for it; the next round continues.
          log.warn({ error }, `old ${task.name} could not be deleted; trying again in a minute`);
        });
      }
    },
    () => pause(everyMs),
  );
  return {
    async stop() {
      ending.abort();
      await worker.stop();
      await lease.release().catch((error: unknown) => log.warn({ error }, "the upkeep lease was not released"));
    },
  };
}
