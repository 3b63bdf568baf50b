/**
 * Shares one ledger file with other processes: it is locked while calls run, and free between them. Calls of this
 * process that overlap share one lock.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { fileLedger } from "../../agent/file-ledger";
import { type AgentLedger, openLedger } from "../../agent/ledger/ledger";
import type { Ledger } from "../../agent/ledger/ledger-store";
import { type Deferred, deferred } from "../../protocol/exchange";

/** How long another host may hold the ledger before a call gives up: longer than one payment takes. */
const WAIT_MS = 45_000;

/** How old a session may be when another call joins it: later calls let other hosts have the ledger first. */
const MAX_AGE_MS = 5_000;

/** How long the ledger then stays free: others look for the lock every 100 ms. */
const FREE_MS = 250;

interface Session {
  readonly store: Ledger;
  readonly view: Promise<AgentLedger>;
  readonly startedMs: number;
  users: number;
  readonly ended: Deferred<void>;
}

export class LedgerSessions {
  readonly #file: string;
  #current: Session | undefined;

  constructor(file: string) {
    this.#file = file;
  }

  /** Runs `work` while this process has the ledger. @throws TurnpikeError LedgerLocked when another host keeps it */
  async use<T>(work: (store: Ledger) => Promise<T>): Promise<T> {
    const session = await this.#enter();
    try {
      await session.view;
      return await work(session.store);
    } finally {
      await this.#leave(session);
    }
  }

  async #enter(): Promise<Session> {
    for (;;) {
      const current = this.#current;
      if (!current) break;
      const isOld = performance.now() - current.startedMs > MAX_AGE_MS;
      if (current.users > 0 && !isOld) {
        current.users++;
        return current;
      }
      await current.ended.promise;
      if (isOld) await sleep(FREE_MS);
    }
    const store = fileLedger(this.#file, { waitMs: WAIT_MS });
    const view = openLedger(store);
    // Each user awaits it; without this a session that nobody awaits yet would be an unhandled rejection.
    view.catch(() => undefined);
    this.#current = { store, view, startedMs: performance.now(), users: 1, ended: deferred() };
    return this.#current;
  }

  async #leave(session: Session): Promise<void> {
    if (--session.users > 0) return;
    try {
      // A ledger that could not be opened holds nothing.
      const view = await session.view.catch(() => undefined);
      await view?.close();
    } finally {
      this.#current = undefined;
      session.ended.resolve();
    }
  }
}
