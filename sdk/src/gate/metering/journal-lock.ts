/**
 * Limits a meter's journal to one process. A process that was suspended for long (a laptop, a paused container) may have
 * lost its lock. It writes nothing until it has checked that it still owns the lock, or has acquired it again and read
 * what others wrote.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { lock } from "proper-lockfile";
import { TurnpikeError, Unavailable } from "../../protocol/errors";

export interface JournalLockOptions {
  /** of the journal */
  readonly path: string;
  /** how long a dead process's lock is honoured */
  readonly staleMs: number;
  /** called once for each time that the lock may be another process's */
  readonly onDoubt: (reason: TurnpikeError) => void;
  /** The lock is lost: closes the journal. */
  readonly leave: (reason: TurnpikeError) => Promise<void>;
  /** The lock is taken again: opens the journal and reads it. */
  readonly rejoin: () => Promise<void>;
}

/** Of the time after which a lock is stale: a standstill of this much is noticed before another process takes over. */
const STANDSTILL_SHARE = 0.75;
const TAKE_AGAIN_MS = 5_000;

export class JournalLock {
  private unlock: (() => Promise<void>) | undefined;
  private doubt: TurnpikeError | undefined;
  private isLost = false;
  private isReleased = false;
  private recovering: Promise<void> | undefined;
  private pulse: NodeJS.Timeout | undefined;
  private aliveAtMs = 0;

  constructor(private readonly options: JournalLockOptions) {}

  /** @throws LedgerLocked while another process holds it */
  async take(): Promise<void> {
    const { path, staleMs } = this.options;
    // A process that was killed leaves its lock behind; it is taken over once it is stale, so wait a little longer.
    const retries = { retries: Math.ceil((staleMs * 1.5) / 250), factor: 1, minTimeout: 250, maxTimeout: 250 };
    try {
      this.unlock = await lock(path, {
        realpath: false,
        stale: staleMs,
        update: staleMs / 4,
        retries,
        onCompromised: (cause) => this.lose(cause),
      });
    } catch (cause) {
      throw new TurnpikeError(
        "LedgerLocked",
        `Another process holds the meter's journal ${path}. Give each process a folder of its own (meterFolder, TURNPIKE_METER), or all of them one meterStore.`,
        { cause },
      );
    }
    this.isLost = false;
    this.aliveAtMs = performance.now();
    this.pulse ??= setInterval(() => {
      if (!this.stoodStill()) this.aliveAtMs = performance.now();
    }, staleMs / 10).unref();
  }

  /** @throws Unavailable while it may be another process's */
  requireHeld(): void {
    if (!this.doubt && this.stoodStill()) this.suspect("standstill");
    if (this.doubt) throw this.doubt;
  }

  async release(): Promise<void> {
    this.isReleased = true;
    clearInterval(this.pulse);
    await this.recovering;
    if (!this.isLost) await this.unlock?.();
  }

  private stoodStill(): boolean {
    return performance.now() - this.aliveAtMs > this.options.staleMs * STANDSTILL_SHARE;
  }

  private lose(cause: unknown): void {
    this.isLost = true;
    this.suspect(cause);
  }

  private suspect(cause: unknown): void {
    if (this.doubt || this.isReleased) return;
    const message = "The lock of the meter's journal may be another process's; it is being checked or taken again.";
    this.doubt = new Unavailable(message, { cause, retryAfterSec: 5 });
    this.options.onDoubt(this.doubt);
    this.recovering = this.recover(this.doubt);
  }

  /** Ends with the lock held and the journal open, or with `release`. */
  private async recover(doubt: TurnpikeError): Promise<void> {
    // proper-lockfile looks at the lock four times within `staleMs`; it says so when it finds it taken or gone.
    const lookMs = this.options.staleMs / 2;
    while ((await this.rest(lookMs)) > 1.5 * lookMs);
    while (this.isLost && !this.isReleased) {
      await this.options.leave(doubt);
      try {
        await this.take();
        await this.options.rejoin();
      } catch {
        await this.releaseLock();
        await this.rest(TAKE_AGAIN_MS);
      }
    }
    this.aliveAtMs = performance.now();
    if (!this.isLost) this.doubt = undefined;
  }

  private async releaseLock(): Promise<void> {
    if (!this.isLost) await this.unlock?.().catch(() => undefined);
    this.isLost = true;
  }

  /** In short naps, so that a process that closes its meter does not wait. @returns how long it took */
  private async rest(totalMs: number): Promise<number> {
    const beganMs = performance.now();
    const passedMs = (): number => performance.now() - beganMs;
    while (!this.isReleased && passedMs() < totalMs) await sleep(Math.min(100, totalMs), undefined, { ref: false });
    return passedMs();
  }
}
