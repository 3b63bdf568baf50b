/**
 * Starts requests' work for up to half of each turn of the event loop; the rest waits for the next turns. Otherwise each
 * turn of a busy service would take so long that new connections wait in the kernel, unanswered, until it drops them.
 * While work waits too long, new work is refused here, before anything is done for it.
 */
import { FairShares, type Party } from "../lib/fair-shares";

export interface WorkQueueOptions {
  readonly maxWaiting: number;
  /** while the oldest waits for longer, new work is refused */
  readonly maxAgeMs: number;
  /** what waits for longer is not started any more */
  readonly deadlineMs: number;
  /** Each turn spends at least this on starting work. */
  readonly turnCpuMs: number;
  /** A turn spends as long as everything else in it takes, up to this. */
  readonly maxTurnCpuMs: number;
  /** processor time that this process has used: it runs slower while others need the processor */
  readonly cpuMs: () => number;
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
  readonly #waiting = new Set<Waiting>();
  #spentMs = 0;
  #budgetMs: number;
  #spentLastMs = Number.POSITIVE_INFINITY;
  #isNextTurnDue = false;

  constructor(options: WorkQueueOptions) {
    this.#options = options;
    this.#budgetMs = options.turnCpuMs;
  }

  /** Returns whether any work would be refused now. */
  get isFull(): boolean {
    return this.#fillAt(this.#options.monotonicMs()) >= 1;
  }

  /** Starts work now or in one of the next turns, or refuses it. */
  add(work: Work): void {
    if (this.#waiting.size === 0 && this.#spentMs < this.#budgetMs) this.#spend(() => work.start(0));
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
    const { cpuMs } = this.#options;
    const beganMs = cpuMs();
    act();
    this.#spentLastMs = cpuMs();
    this.#spentMs += this.#spentLastMs - beganMs;
    if (this.#isNextTurnDue) return;
    this.#isNextTurnDue = true;
    setImmediate(() => this.#nextTurn());
  }

  #nextTurn(): void {
    const { turnCpuMs, maxTurnCpuMs, cpuMs } = this.#options;
    this.#isNextTurnDue = false;
    this.#spentMs = 0;
    this.#budgetMs = Math.max(turnCpuMs, Math.min(maxTurnCpuMs, cpuMs() - this.#spentLastMs));
    for (const waiting of this.#waiting) {
      if (this.#spentMs >= this.#budgetMs) break;
      this.#waiting.delete(waiting);
      this.#shares.leave(waiting.party);
      this.#spend(() => this.#begin(waiting));
    }
  }

  #begin({ work, sinceMs }: Waiting): void {
    const waitedMs = this.#options.monotonicMs() - sinceMs;
    if (waitedMs > this.#options.deadlineMs) work.refuse();
    else work.start(waitedMs);
  }
}
