/**
 * Follows the chain's head for the whole process: feeds the chain clock, and notifies listeners of the records of
 * Turnpike that new blocks touched (one eth_getLogs per advance). Polls only while the head is needed. Knows nothing of
 * caches.
 */
import { type Address, Unavailable } from "../protocol";
import { callback, fieldsOf } from "../protocol/arguments";
import { sharedCall } from "../protocol/exchange";
import type { ChainClock, Head } from "./clock";
import { ConfirmedHead, type HeadListener } from "./confirmed-head";
import { requireRpc } from "./require-rpc";
import type { Rpc } from "./rpc";

/** The head of one chain, shared by all who follow it. */
export interface HeadWatcher {
  /** Returns the head when it was confirmed recently enough; never calls the chain. */
  fresh(): Head | undefined;
  /** Returns the head, read now where needed. @throws Unavailable */
  current(): Promise<Head>;
  /** Returns for how long the head has been asked for without an answer that counts, milliseconds; 0 where it is not. */
  missingForMs(): number;
  /** Reads the head now; concurrent callers share one call. @throws Unavailable */
  newest(): Promise<Head>;
  /** @returns how to stop listening */
  listen(listener: HeadListener): () => void;
  /** Stops following. */
  close(): void;
}

/** What a watcher follows, and its limits. */
export interface HeadWatcherOptions {
  readonly rpc: Rpc;
  readonly clock: ChainClock;
  /** undefined: only the time is followed */
  readonly turnpike: Address | undefined;
  /** how often the head is asked for; default once a block, from 250 to 1,000 */
  readonly pollMs?: number;
  /** the shortest time between reads of the newest head; callers in between share one; default 250 */
  readonly askMs?: number;
  /** how old the last confirmation of the head may be before nothing cached counts; default 5 polls, at least 5,000 */
  readonly maxAgeMs?: number;
  /** how long the head may stay the same before the endpoint counts as stuck; default: for ever */
  readonly maxSilenceMs?: number;
  /** default 60,000 */
  readonly stopAfterIdleMs?: number;
  /** a clock that never goes back, milliseconds; default: the platform's */
  readonly monotonicMs?: () => number;
}

const MAX_POLL_MS = 1_000;

/** A poll that takes longer is not waited for: the host may have ended it with the request that began it. */
const LONGEST_POLL_MS = 12_000;

const MIN_POLL_MS = 250;

/** How often to ask for the head of a chain that brings a block every `blockMs`. */
export const pollPaceMs = (blockMs: number): number => Math.min(MAX_POLL_MS, Math.max(MIN_POLL_MS, blockMs));

/** Follows a chain's head over one RPC, and notifies listeners of the records that each block touched. */
export function watchHeads(options: HeadWatcherOptions): HeadWatcher {
  const { rpc, clock } = fieldsOf(options, "options");
  requireRpc(rpc, "options.rpc");
  callback(rpc.onBlock, "options.rpc.onBlock");
  callback(fieldsOf(clock, "options.clock").observe, "options.clock.observe");
  const poller = new HeadPoller(options);
  return {
    fresh: () => poller.fresh(),
    current: () => poller.current(),
    missingForMs: () => poller.missingForMs(),
    newest: () => poller.newest(),
    listen: (listener) => poller.listen(listener),
    close: () => poller.close(),
  };
}

class HeadPoller implements HeadWatcher {
  readonly #head: ConfirmedHead;
  readonly #pollMs: number | undefined;
  readonly #askMs: number;
  readonly #stopAfterIdleMs: number;
  readonly #monotonicMs: () => number;
  readonly #stopWaking: () => void;
  #askedAtMs = Number.NEGATIVE_INFINITY;
  /** when the last poll that has ended began */
  #polledAtMs = Number.NEGATIVE_INFINITY;
  readonly #poll = sharedCall(LONGEST_POLL_MS, () => this.#pollOnce());
  /** All who ask for the newest head share what comes before the poll, and then the poll. */
  readonly #beforePoll = sharedCall(LONGEST_POLL_MS, () => this.#spaced());
  #isPolling = false;
  /** when the first poll began since which none has confirmed the head */
  #missingSinceMs: number | undefined;
  #askedNewestAtMs = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #scheduledAtMs = 0;
  #isClosed = false;

  constructor(options: HeadWatcherOptions) {
    const { rpc, clock, turnpike, pollMs = MAX_POLL_MS, maxSilenceMs = Number.POSITIVE_INFINITY } = options;
    const { stopAfterIdleMs = 60_000, monotonicMs = () => performance.now() } = options;
    const { askMs = Math.min(pollMs / 4, 250), maxAgeMs = Math.max(5_000, 5 * pollMs) } = options;
    this.#head = new ConfirmedHead({ rpc, clock, turnpike, maxAgeMs, maxSilenceMs });
    this.#pollMs = options.pollMs;
    this.#askMs = askMs;
    this.#stopAfterIdleMs = stopAfterIdleMs;
    this.#monotonicMs = monotonicMs;
    this.#stopWaking = rpc.onBlock(() => void this.#poll().catch(ignoreUntilAsked));
  }

  fresh(): Head | undefined {
    this.#askedAtMs = this.#monotonicMs();
    this.#schedule();
    return this.#head.at(this.#askedAtMs);
  }

  async current(): Promise<Head> {
    return this.fresh() ?? this.newest();
  }

  missingForMs(): number {
    return this.#missingSinceMs === undefined ? 0 : this.#monotonicMs() - this.#missingSinceMs;
  }

  async newest(): Promise<Head> {
    const askedMs = this.#monotonicMs();
    while (this.#head.confirmedAtMs < askedMs && this.#polledAtMs < askedMs) {
      await this.#beforePoll();
      await this.#poll();
    }
    const confirmed = this.fresh();
    if (!confirmed) throw new Unavailable("The chain's head is not moving or lags behind.", { retryAfterSec: 2 });
    return confirmed;
  }

  listen(listener: HeadListener): () => void {
    const { listeners } = this.#head;
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#stopWaking();
    this.#head.listeners.clear();
  }

  /** Bounds how often refusals make this process read the head. */
  async #spaced(): Promise<void> {
    // A poll that is under way may have its answer from before this question.
    if (this.#isPolling) await this.#poll().catch(ignoreUntilAsked);
    const waitMs = this.#askedNewestAtMs + this.#askMs - this.#monotonicMs();
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    this.#askedNewestAtMs = this.#monotonicMs();
  }

  /** At least once a block, so that what a block ends is served no longer than another one takes. */
  #paceMs(): number {
    return this.#pollMs ?? pollPaceMs(this.#head.blockMs ?? MAX_POLL_MS);
  }

  #schedule(): void {
    const nowMs = this.#monotonicMs();
    const isLost = nowMs - this.#scheduledAtMs > LONGEST_POLL_MS;
    if ((this.#timer && !isLost) || this.#isClosed) return;
    this.#scheduledAtMs = nowMs;
    const timer = setTimeout(async () => {
      if (this.#timer !== timer) return;
      this.#timer = undefined;
      if (this.#monotonicMs() - this.#askedAtMs > this.#stopAfterIdleMs) {
        this.#missingSinceMs = undefined;
        return;
      }
      await this.#poll().catch(ignoreUntilAsked);
      this.#schedule();
    }, this.#paceMs());
    timer.unref();
    this.#timer = timer;
  }

  async #pollOnce(): Promise<void> {
    if (this.#isClosed) throw new Unavailable("This gate was closed.");
    // An answer is as old as its question.
    const nowMs = this.#monotonicMs();
    this.#missingSinceMs ??= nowMs;
    this.#isPolling = true;
    try {
      await this.#head.refresh(nowMs);
    } finally {
      this.#isPolling = false;
    }
    this.#polledAtMs = nowMs;
    if (this.#head.at(nowMs)) this.#missingSinceMs = undefined;
  }
}

/**
 * Ignores a failed poll: the last confirmation ages, and a caller that needs the head then reads it and gets the error.
 */
function ignoreUntilAsked(): void {}
