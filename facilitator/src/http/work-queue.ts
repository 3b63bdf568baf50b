/**
 * Starts requests' work for a few milliseconds of each turn of the event loop; the rest waits for the next turns.
 * Otherwise each turn of a busy service would take so long that new connections wait in the kernel, unanswered, until
 * it drops them. What waits too long is refused here, before any work is done for it.
 */
import { FairShares, type Party } from "../lib/fair-shares";

export interface WorkQueueOptions {
  readonly maxWaiting: number;
  /** the time in which each must start */
  readonly maxAgeMs: number;
  /** of each turn, spent on starting work */
  readonly turnMs: number;
  readonly monotonicMs: () => number;
}

export interface Work {
  /** called only when others wait */
  partyOf(): Party;
  start(waitedMs: number): void;
  /** called instead of `start`, at once or when it would start too late */
  refuse(): void;
}

interface Waiting {
  readonly work: Work;
  readonly party: Party;
  readonly sinceMs: number;
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

  /** Starts work now or in one of the next turns, or refuses it. */
  add(work: Work): void {
    if (this.#waiting.size === 0 && this.#spentMs < this.#options.turnMs) this.#spend(() => work.start(0));
    else if (!this.#enter(work)) work.refuse();
  }

  #enter(work: Work): boolean {
    const party = work.partyOf();
    const sinceMs = this.#options.monotonicMs();
    if (!this.#shares.mayEnter(party, this.#fillAt(sinceMs))) return false;
    this.#shares.enter(party);
    this.#waiting.add({ work, party, sinceMs });
    return true;
  }

  #fillAt(nowMs: number): number {
    const { maxAgeMs, maxWaiting } = this.#options;
    const [oldest] = this.#waiting;
    return Math.max((nowMs - (oldest?.sinceMs ?? nowMs)) / maxAgeMs, this.#waiting.size / maxWaiting);
  }

  #spend(act: () => void): void {
    const { monotonicMs } = this.#options;
    const beganMs = monotonicMs();
    act();
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
      this.#spend(() => this.#begin(waiting));
    }
  }

  #begin({ work, sinceMs }: Waiting): void {
    const waitedMs = this.#options.monotonicMs() - sinceMs;
    if (waitedMs > this.#options.maxAgeMs) work.refuse();
    else work.start(waitedMs);
  }
}
