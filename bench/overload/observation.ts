/**
 * Bounds the time at which something reached this process's sockets, although the process may notice it late. An event
 * that a turn of the event loop delivers was not there when the turn before it looked: it came after the start of that
 * turn. So a process without processor neither blames the other side for its own delay nor excuses it.
 */

/** How long a request took, seen from outside this process. */
export interface Sighting {
  /** without what this process may have lost before it sent the request, and before it read the answer */
  readonly atLeastMs: number;
  /** with all of it */
  readonly atMostMs: number;
}

export interface Seen {
  /** The connection is open: the request leaves now. */
  connected(): void;
  atLeastMs(): number;
  /** Returns how long this process left an open connection without its request, at most. */
  sentAfterMs(): number;
  end(): Sighting;
}

const TICK_MS = 5;

export class Observation {
  readonly #now: () => number;
  #lastMs: number;
  /** start of a turn before the current one: what is delivered now came later */
  #beforeMs: number;
  #longestTurnMs = 0;
  /** whether the sockets were read since the last tick: timers may run twice in one turn */
  #hasRead = true;
  readonly #timer: NodeJS.Timeout;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#lastMs = now();
    this.#beforeMs = this.#lastMs;
    // Timers run at the start of a turn, before the sockets are read.
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  get longestTurnMs(): number {
    return this.#longestTurnMs;
  }

  /** A request begins: its connection is being opened. */
  begin(): Seen {
    const startedMs = this.#now();
    let sentMs: number | undefined;
    let connectingMs = 0;
    const atLeastMs = (): number => {
      const sinceMs = sentMs ?? startedMs;
      return connectingMs + Math.max(0, this.#beforeMs - sinceMs);
    };
    return {
      connected: () => {
        connectingMs = Math.max(0, this.#beforeMs - startedMs);
        sentMs = this.#now();
      },
      atLeastMs,
      sentAfterMs: () => (sentMs === undefined ? 0 : sentMs - startedMs - connectingMs),
      end: () => ({ atLeastMs: atLeastMs(), atMostMs: this.#now() - startedMs }),
    };
  }

  end(): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    if (!this.#hasRead) return;
    this.#hasRead = false;
    setImmediate(() => {
      this.#hasRead = true;
    });
    const nowMs = this.#now();
    this.#longestTurnMs = Math.max(this.#longestTurnMs, nowMs - this.#lastMs);
    this.#beforeMs = this.#lastMs;
    this.#lastMs = nowMs;
  }
}
