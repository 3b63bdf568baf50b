/**
 * Tracks whether the database can be read and written now: by a probe every few seconds, and by the errors of
 * statements.
 */
import { isTurnpikeError } from "turnpike/protocol";
import type { DatabaseWatch } from "./guarded-pool";
import { requireKnown } from "./migrate";
import type { Db, Store } from "./open";
import { describeOutage } from "./outage";
import { databaseNowMs } from "./sql";

export interface DatabaseHealth {
  readonly ok: boolean;
  /** description of the state; contains no URL */
  readonly detail: string;
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

/** Called when a migration was applied on which this release cannot run. */
export type Superseded = (error: Error) => void;

/** Probes the database one probe at a time, and remembers what came of it. */
class DatabaseProbe {
  readonly #monotonicMs: () => number;
  #act: (() => Promise<void>) | undefined;
  #running: Promise<void> | undefined;
  #askedMs: number | undefined;
  #okMs: number | undefined;
  #failure: string | undefined;
  readonly #onSuperseded: Superseded;

  constructor(monotonicMs: () => number, onSuperseded: Superseded) {
    this.#monotonicMs = monotonicMs;
    this.#onSuperseded = onSuperseded;
  }

  /** Probes from now on with `act`; it throws during an outage. */
  begin(act: () => Promise<void>): void {
    this.#act = act;
  }

  run(): Promise<void> {
    this.#running ??= this.#once().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  health(): DatabaseHealth {
    const nowMs = this.#monotonicMs();
    if (this.#failure !== undefined) return { ok: false, detail: this.#failure };
    if (this.#okMs === undefined) return { ok: false, detail: "it was not read yet" };
    if (this.#askedMs !== undefined && nowMs - this.#askedMs > SILENT_MS)
      return { ok: false, detail: `no answer for ${Math.round((nowMs - this.#askedMs) / 1_000)} s` };
    return { ok: true, detail: `read and written ${Math.round((nowMs - this.#okMs) / 1_000)} s ago` };
  }

  async end(): Promise<void> {
    this.#act = undefined;
    await this.#running;
  }

  async #once(): Promise<void> {
    if (!this.#act) return;
    this.#askedMs = this.#monotonicMs();
    try {
      await this.#act();
      this.#okMs = this.#monotonicMs();
      this.#failure = undefined;
    } catch (error) {
      const isSuperseded = isTurnpikeError(error) && error.code === "ConfigError";
      this.#failure = isSuperseded ? error.message : describeOutage(error);
      if (isSuperseded) this.#onSuperseded(error);
    } finally {
      this.#askedMs = undefined;
    }
  }
}

export class HealthWatch implements DatabaseWatch {
  readonly #monotonicMs: () => number;
  readonly #probe: DatabaseProbe;
  #refused: { readonly detail: string; readonly atMs: number } | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(monotonicMs: () => number, onSuperseded: Superseded = () => undefined) {
    this.#monotonicMs = monotonicMs;
    this.#probe = new DatabaseProbe(monotonicMs, onSuperseded);
  }

  /** Probes until stopped. Resolves after the first probe. */
  async start(store: Store, chainId: number): Promise<void> {
    this.#probe.begin(() => probeDatabase(store.db, chainId));
    await this.#probe.run();
    this.#timer = setInterval(() => void this.#probe.run(), store.kind === "pglite" ? PROBE_EMBEDDED_MS : PROBE_MS);
    this.#timer.unref();
  }

  failed(error: unknown): void {
    const code = (error as { cause?: { code?: unknown } } | undefined)?.cause?.code;
    const isRefusal = code === "25006" || code === "ENOSPC" || (typeof code === "string" && /^53/.test(code));
    if (isRefusal) this.#refused = { detail: describeOutage(error), atMs: this.#monotonicMs() };
    else void this.#probe.run();
  }

  health(): DatabaseHealth {
    const refused = this.#refused;
    if (refused && this.#monotonicMs() - refused.atMs < REFUSED_MS) return { ok: false, detail: refused.detail };
    return this.#probe.health();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#probe.end();
  }
}

/**
 * Writes the row and reads it back.
 * @throws Unavailable during an outage
 * @throws ConfigError when this release cannot run on the tables any more
 */
async function probeDatabase(db: Db, chainId: number): Promise<void> {
  await requireKnown(db);
  await db
    .insertInto("database_probes")
    .values({ chain_id: chainId, at_ms: databaseNowMs })
    .onConflict((conflict) => conflict.column("chain_id").doUpdateSet({ at_ms: databaseNowMs }))
    .returning("at_ms")
    .executeTakeFirstOrThrow();
}
