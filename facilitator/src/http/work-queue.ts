/**
 * Starts requests' work for a few milliseconds of each turn of the event loop; the rest waits for the next turns.
 * Otherwise each turn of a busy service would take so long that new connections wait in the kernel, unanswered, until
 * it drops them. What waits too long is refused here, before any work is done for it.
 */
import { FairShares, type Party } from "../lib/fair-shares";

export interface WorkQueueOptions {
  /** the time in which the oldest must start */
  readonly maxAgeMs: number;
  /** of each turn, spent on starting work */
  readonly turnMs: number;
  readonly monotonicMs: () => number;
}

interface Waiting {
  readonly party: Party;
  readonly sinceMs: number;
  start(): void;
}

export class WorkQueue {
  readonly #options: WorkQueueOptions;
  readonly #shares = new FairShares();
  /** in order of arrival */
  readonly #waiting = new Set<Waiting>();
  /** of this turn */
  #spentMs = 0;
  #isNextTurnDue = false;

  constructor(options: WorkQueueOptions) {
    this.#options = options;
  }

  /**
   * Starts work now or in one of the next turns.
   * @param partyOf called only when others wait
   * @returns false when it is refused
   */
  add(start: () => void, partyOf: () => Party): boolean {
    if (this.#waiting.size === 0 && this.#spentMs < this.#options.turnMs) {
      this.#run(start);
      return true;
    }
    const party = partyOf();
    const sinceMs = this.#options.monotonicMs();
    const [oldest] = this.#waiting;
    const fill = (sinceMs - (oldest?.sinceMs ?? sinceMs)) / this.#options.maxAgeMs;
    if (!this.#shares.mayEnter(party, fill)) return false;
    this.#shares.enter(party);
    this.#waiting.add({ party, sinceMs, start });
    return true;
  }

  #run(start: () => void): void {
    const { monotonicMs } = this.#options;
    const beganMs = monotonicMs();
    start();
    this.#spentMs += monotonicMs() - beganMs;
    if (this.#isNextTurnDue) return;
    this.#isNextTurnDue = true;
    setImmediate(() => this.#nextTurn());
  }

  #nextTurn(): void {
    this.#isNextTurnDue = false;
    this.#spentMs = 0;
    for (const waiting of this.#waiting) {
      if (this.#spentMs >= this.#options.turnMs) break;
      this.#waiting.delete(waiting);
      this.#shares.leave(waiting.party);
      this.#run(waiting.start);
    }
  }
}
