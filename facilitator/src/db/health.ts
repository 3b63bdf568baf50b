/**
 * Tracks whether the database can be read and written now: by a probe every few seconds, and by the errors of
 * statements.
 */
import type { DatabaseWatch } from "./guarded-pool";
import type { Db, Store } from "./open";
import { describeOutage } from "./outage";
import { databaseNowMs } from "./sql";

export interface DatabaseHealth {
  readonly ok: boolean;
  /** description of the state; contains no URL */
  readonly detail: string;
}

export interface HealthWatch extends DatabaseWatch {
  /** Probes until stopped. Resolves after the first probe. */
  start(store: Store, chainId: number): Promise<void>;
  health(): DatabaseHealth;
  stop(): Promise<void>;
}

/** Probe interval of the embedded database, which has a single connection. */
const PROBE_EMBEDDED_MS = 10_000;

const PROBE_MS = 2_000;

/** A probe that is not answered for this long counts as failed. */
const SILENT_MS = 10_000;

/**
 * How long a real statement's failure counts. A full disk rejects some writes and accepts small ones, so a probe may
 * succeed.
 */
const REFUSED_MS = 10_000;

export function createHealthWatch(monotonicMs: () => number): HealthWatch {
  let okMs: number | undefined;
  let askedMs: number | undefined;
  let failure: string | undefined;
  let refused: { readonly detail: string; readonly atMs: number } | undefined;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  let probe: (() => Promise<void>) | undefined;

  /** Probes the database; concurrent callers share one probe. */
  function look(): Promise<void> {
    running ??= once().finally(() => {
      running = undefined;
    });
    return running;
  }

  async function once(): Promise<void> {
    if (!probe) return;
    askedMs = monotonicMs();
    try {
      await probe();
      okMs = monotonicMs();
      failure = undefined;
    } catch (error) {
      failure = describeOutage(error);
    } finally {
      askedMs = undefined;
    }
  }

  return {
    failed(error) {
      const code = (error as { cause?: { code?: unknown } } | undefined)?.cause?.code;
      const isRefusal = code === "25006" || code === "ENOSPC" || (typeof code === "string" && /^53/.test(code));
      if (isRefusal) refused = { detail: describeOutage(error), atMs: monotonicMs() };
      else void look();
    },
    async start(store, chainId) {
      probe = () => probeDatabase(store.db, chainId);
      await look();
      timer = setInterval(() => void look(), store.kind === "pglite" ? PROBE_EMBEDDED_MS : PROBE_MS);
      timer.unref();
    },
    health() {
      const nowMs = monotonicMs();
      if (refused && nowMs - refused.atMs < REFUSED_MS) return { ok: false, detail: refused.detail };
      if (failure !== undefined) return { ok: false, detail: failure };
      if (okMs === undefined) return { ok: false, detail: "it was not read yet" };
      if (askedMs !== undefined && nowMs - askedMs > SILENT_MS)
        return { ok: false, detail: `no answer for ${Math.round((nowMs - askedMs) / 1_000)} s` };
      return { ok: true, detail: `read and written ${Math.round((nowMs - okMs) / 1_000)} s ago` };
    },
    async stop() {
      clearInterval(timer);
      probe = undefined;
      await running;
    },
  };
}

/** Writes the row and reads it back. @throws Unavailable during an outage */
async function probeDatabase(db: Db, chainId: number): Promise<void> {
  await db
    .insertInto("database_probes")
    .values({ chain_id: chainId, at_ms: databaseNowMs })
    .onConflict((conflict) => conflict.column("chain_id").doUpdateSet({ at_ms: databaseNowMs }))
    .returning("at_ms")
    .executeTakeFirstOrThrow();
}
