/**
 * Follows the chain's head for the whole process: feeds the chain clock, and notifies listeners of the records of
 * Turnpike that new blocks touched (one eth_getLogs per advance). Polls only while the head is needed. Knows nothing of
 * caches.
 */
import { type Address, type Hex, Unavailable } from "../protocol";
import type { ChainClock, Head } from "./clock";
import type { RawLog } from "./events";
import type { Rpc } from "./rpc";

/** A listener for blocks. */
export interface HeadListener {
  /** New blocks. `touched`: every indexed topic (idHash, planId ...) of Turnpike's logs in them. */
  onAdvance(head: Head, touched: ReadonlySet<string>): void;
  /** History was rewritten, or too much was missed: whatever was read before is invalid. */
  onReset(): void;
}

/** The head of one chain, shared by all who follow it. */
export interface HeadWatcher {
  /** Returns the head when it was confirmed recently enough; never calls the chain. */
  fresh(): Head | undefined;
  /** Returns the head, read now where needed. @throws Unavailable */
  current(): Promise<Head>;
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

interface KnownHead extends Head {
  readonly hash: string;
  readonly parentHash: string;
}

const MAX_POLL_MS = 1_000;

const MIN_POLL_MS = 250;

const MAX_GAP_BLOCKS = 500;

/** A range is asked for with a few blocks already seen: a lagging endpoint answers a range with less, not an error. */
const OVERLAP_BLOCKS = 2;

/** How often to ask for the head of a chain that brings a block every `blockMs`. */
export const pollPaceMs = (blockMs: number): number => Math.min(MAX_POLL_MS, Math.max(MIN_POLL_MS, blockMs));

/** Follows a chain's head over one RPC, and notifies listeners of the records that each block touched. */
export function watchHeads(options: HeadWatcherOptions): HeadWatcher {
  const { rpc, clock, turnpike, pollMs = MAX_POLL_MS, maxSilenceMs = Number.POSITIVE_INFINITY } = options;
  const { stopAfterIdleMs = 60_000, monotonicMs = () => performance.now() } = options;
  const askMs = options.askMs ?? Math.min(pollMs / 4, 250);
  const maxAgeMs = options.maxAgeMs ?? Math.max(5_000, 5 * pollMs);
  const listeners = new Set<HeadListener>();
  let known: KnownHead | undefined;
  let confirmedAtMs = Number.NEGATIVE_INFINITY;
  let advancedAtMs = Number.NEGATIVE_INFINITY;
  let askedAtMs = Number.NEGATIVE_INFINITY;
  /** when the last poll that has ended began */
  let polledAtMs = Number.NEGATIVE_INFINITY;
  let polling: Promise<void> | undefined;
  let askedNewestAtMs = Number.NEGATIVE_INFINITY;
  /** the poll that has not begun yet: all who ask for the newest head until then share it */
  let upcoming: Promise<void> | undefined;
  /** the chain's own pace, as last seen */
  let blockMs = MAX_POLL_MS;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  const stopWaking = rpc.onBlock(() => void poll().catch(ignoreUntilAsked));

  function fresh(): Head | undefined {
    askedAtMs = monotonicMs();
    schedule();
    const usable = askedAtMs - confirmedAtMs <= maxAgeMs && askedAtMs - advancedAtMs <= maxSilenceMs;
    return usable ? known : undefined;
  }

  async function current(): Promise<Head> {
    return fresh() ?? newest();
  }

  async function newest(): Promise<Head> {
    const askedMs = monotonicMs();
    while (confirmedAtMs < askedMs && polledAtMs < askedMs) await nextPoll();
    const confirmed = fresh();
    if (!confirmed) throw new Unavailable("The chain's head is not moving or lags behind.", { retryAfterSec: 2 });
    return confirmed;
  }

  function nextPoll(): Promise<void> {
    upcoming ??= spaced().then(() => {
      upcoming = undefined;
      return poll();
    });
    return upcoming;
  }

  /** Bounds how often refusals make this process read the head. */
  async function spaced(): Promise<void> {
    // A poll that is under way may have its answer from before this question.
    await polling?.catch(ignoreUntilAsked);
    const waitMs = askedNewestAtMs + askMs - monotonicMs();
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    askedNewestAtMs = monotonicMs();
  }

  /** At least once a block, so that what a block ends is served no longer than another one takes. */
  const paceMs = (): number => options.pollMs ?? pollPaceMs(blockMs);

  function schedule(): void {
    if (timer || closed) return;
    timer = setTimeout(async () => {
      timer = undefined;
      if (monotonicMs() - askedAtMs > stopAfterIdleMs) return;
      await poll().catch(ignoreUntilAsked);
      schedule();
    }, paceMs());
    timer.unref();
  }

  function poll(): Promise<void> {
    if (closed) return Promise.reject(new Unavailable("This gate was closed."));
    polling ??= pollOnce().finally(() => {
      polling = undefined;
    });
    return polling;
  }

  async function pollOnce(): Promise<void> {
    // An answer is as old as its question.
    const nowMs = monotonicMs();
    await applyHead(nowMs);
    polledAtMs = nowMs;
  }

  async function applyHead(nowMs: number): Promise<void> {
    const next = await readBlock(rpc, "latest");
    if (!known) return adopt(next, nowMs);
    if (next.number < known.number) {
      // An endpoint that lags confirms nothing. When that lasts, the chain itself was rolled back or replaced.
      if (nowMs - confirmedAtMs > maxAgeMs) reset(next, nowMs);
      return;
    }
    if (next.number === known.number) {
      if (next.hash !== known.hash) return reset(next, nowMs);
      confirmedAtMs = nowMs;
      return;
    }
    if (next.number - known.number > MAX_GAP_BLOCKS || !(await continues(known, next))) return reset(next, nowMs);
    blockMs = (nowMs - advancedAtMs) / (next.number - known.number);
    const touched = turnpike ? await touchedBetween(turnpike, known, next) : new Set<string>();
    adopt(next, nowMs);
    for (const listener of listeners) listener.onAdvance(next, touched);
  }

  function adopt(next: KnownHead, nowMs: number): void {
    known = next;
    confirmedAtMs = nowMs;
    advancedAtMs = nowMs;
    clock.observe(next);
  }

  function reset(next: KnownHead, nowMs: number): void {
    clock.reset();
    adopt(next, nowMs);
    for (const listener of listeners) listener.onReset();
  }

  async function continues(before: KnownHead, next: KnownHead): Promise<boolean> {
    if (next.number === before.number + 1) return next.parentHash === before.hash;
    return (await readBlock(rpc, `0x${before.number.toString(16)}`)).hash === before.hash;
  }

  async function touchedBetween(address: Address, before: KnownHead, next: KnownHead): Promise<Set<string>> {
    const fromBlock = `0x${Math.max(0, before.number + 1 - OVERLAP_BLOCKS).toString(16)}`;
    const range =
      next.number === before.number + 1
        ? { blockHash: next.hash }
        : { fromBlock, toBlock: `0x${next.number.toString(16)}` };
    const logs = await rpc.send<RawLog[]>("eth_getLogs", [{ address, ...range }]);
    if (!Array.isArray(logs)) throw new Unavailable("The chain answered eth_getLogs with something else than logs.");
    return new Set(logs.flatMap((log) => log.topics.slice(1)));
  }

  return {
    fresh,
    current,
    newest,
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close() {
      closed = true;
      clearTimeout(timer);
      stopWaking();
      listeners.clear();
    },
  };
}

/**
 * Ignores a failed poll: the last confirmation ages, and a caller that needs the head then reads it and gets the error.
 */
function ignoreUntilAsked(): void {}

interface BlockAnswer {
  readonly number?: string;
  readonly hash?: string;
  readonly parentHash?: string;
  readonly timestamp?: string;
}

async function readBlock(rpc: Rpc, tag: string | Hex): Promise<KnownHead> {
  const block = await rpc.send<BlockAnswer | null>("eth_getBlockByNumber", [tag, false]);
  const number = Number(block?.number);
  const timestampSec = Number(block?.timestamp);
  if (!block?.hash || !block.parentHash || !Number.isSafeInteger(number) || !Number.isSafeInteger(timestampSec)) {
    throw new Unavailable(`The chain has no readable block ${tag}.`, { retryAfterSec: 1 });
  }
  return { number, timestampSec, hash: block.hash, parentHash: block.parentHash };
}
