/**
 * Measures how fast a queue is worked off, and estimates from it how long its last place waits. The age of the oldest
 * shows that too late: at three times the pace, the queue holds work for three times that age.
 */
interface Departure {
  readonly atMs: number;
  readonly count: number;
}

/** Long enough for several blocks. */
const WINDOW_MS = 5_000;

/** Less than that shows no pace; nor do so few, of those that came at once, before the window is over. */
const MIN_MS = 1_000;

const MIN_LEFT = 10;

export class Pace {
  readonly #monotonicMs: () => number;
  #departures: Departure[] = [];
  /** since when something waits */
  #busySinceMs: number | undefined;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  /** @param waiting number that waits after `count` have left */
  left(count: number, waiting: number): void {
    const atMs = this.#monotonicMs();
    this.#busySinceMs ??= atMs;
    if (count > 0) this.#departures.push({ atMs, count });
    while ((this.#departures[0]?.atMs ?? atMs) < atMs - WINDOW_MS) this.#departures.shift();
    if (waiting > 0) return;
    this.#busySinceMs = undefined;
    this.#departures = [];
  }

  /** Something waits. */
  arrived(): void {
    this.#busySinceMs ??= this.#monotonicMs();
  }

  /** @returns 0 while no pace is known */
  expectedWaitMs(waiting: number): number {
    if (this.#busySinceMs === undefined) return 0;
    const nowMs = this.#monotonicMs();
    const measuredMs = Math.min(WINDOW_MS, nowMs - this.#busySinceMs);
    const left = this.#departures.reduce((sum, { atMs, count }) => (atMs >= nowMs - WINDOW_MS ? sum + count : sum), 0);
    const isKnown = measuredMs >= (left < MIN_LEFT ? WINDOW_MS : MIN_MS);
    return isKnown && left > 0 ? (waiting * measuredMs) / left : 0;
  }
}
