/**
 * Runs a settler's rounds: never two at once, soon after a change, rarely when idle, with a backoff while they fail.
 */
import type { MeterReport } from "./store";

export interface LoopOptions {
  readonly round: () => Promise<boolean>;
  /** how long until the next round is worth it; undefined: nothing to do until `wake` */
  readonly restMs: () => number | undefined;
  readonly report: MeterReport;
}

const FIRST_BACKOFF_MS = 500;

const MAX_BACKOFF_MS = 30_000;

export class Loop {
  private timer: NodeJS.Timeout | undefined;
  private dueAtMs = Number.POSITIVE_INFINITY;
  /** while rounds fail, nothing wakes the loop earlier */
  private notBeforeMs = 0;
  private running: Promise<void> | undefined;
  private isStopped = true;
  private readonly watchers = new Set<() => void>();
  /** rounds that failed in a row */
  failures = 0;
  lastError: unknown;

  constructor(private readonly options: LoopOptions) {}

  start(): void {
    this.isStopped = false;
    this.wake();
  }

  /** Schedules a round in `inMs` milliseconds, unless one is due earlier; a running round ends first. */
  wake(inMs = 0): void {
    if (this.isStopped) return;
    const nowMs = performance.now();
    const dueAtMs = Math.max(nowMs + inMs, this.notBeforeMs);
    if (dueAtMs >= this.dueAtMs) return;
    this.dueAtMs = dueAtMs;
    if (this.running === undefined) this.arm();
  }

  /** Ends the backoff: the cause of the failures is gone. */
  retryNow(): void {
    this.notBeforeMs = 0;
    this.wake();
  }

  /** Resolves after the next round has ended, well or badly. */
  nextRound(): Promise<void> {
    return new Promise((resolve) => this.watchers.add(resolve));
  }

  async stop(): Promise<void> {
    this.isStopped = true;
    clearTimeout(this.timer);
    await this.running;
    this.notifyWatchers();
  }

  private arm(): void {
    clearTimeout(this.timer);
    if (this.isStopped || this.dueAtMs === Number.POSITIVE_INFINITY) return;
    this.timer = setTimeout(() => this.run(), Math.max(0, this.dueAtMs - performance.now()));
    this.timer.unref();
  }

  private run(): void {
    this.dueAtMs = Number.POSITIVE_INFINITY;
    this.running = this.runRound().then((restMs) => {
      this.running = undefined;
      if (this.failures > 0) {
        this.notBeforeMs = performance.now() + backoffMs(this.failures);
        this.dueAtMs = this.notBeforeMs;
      } else if (restMs !== undefined) this.wake(restMs);
      this.arm();
      this.notifyWatchers();
    });
  }

  /** @returns how long until the next round is worth it */
  private async runRound(): Promise<number | undefined> {
    try {
      const hasChanged = await this.options.round();
      this.failures = 0;
      this.notBeforeMs = 0;
      return hasChanged ? 0 : this.options.restMs();
    } catch (error) {
      this.failures += 1;
      this.lastError = error;
      this.options.report({ kind: "trouble", error });
      return undefined;
    }
  }

  private notifyWatchers(): void {
    const watchers = [...this.watchers];
    this.watchers.clear();
    for (const notify of watchers) notify();
  }
}

const backoffMs = (failures: number): number => Math.min(FIRST_BACKOFF_MS * 2 ** (failures - 1), MAX_BACKOFF_MS);
