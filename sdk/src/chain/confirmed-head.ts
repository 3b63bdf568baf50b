/**
 * Keeps the newest confirmed head of a chain. Judges each block that was read: a new head, the same one, an endpoint
 * that lags, or rewritten history. Polls nothing.
 */
import { type Address, type Hex, Unavailable } from "../protocol";
import { turnpikeInterface } from "./abi";
import type { ChainClock, Head } from "./clock";
import type { RawLog } from "./events";
import type { Rpc } from "./rpc";

/** The first topic of the log that ends every subscription of a plan. */
export const PLAN_ENDED = String(turnpikeInterface.getEvent("PlanEnded")?.topicHash);

/** A listener for blocks. */
export interface HeadListener {
  /** New blocks. `touched`: every indexed topic (idHash, planId ...) of Turnpike's logs in them; and PLAN_ENDED. */
  onAdvance(head: Head, touched: ReadonlySet<string>): void;
  /** History was rewritten, or too much was missed: whatever was read before is invalid. */
  onReset(): void;
}

export interface ConfirmedHeadOptions {
  readonly rpc: Rpc;
  readonly clock: ChainClock;
  /** undefined: only the time is followed */
  readonly turnpike: Address | undefined;
  /** how old the last confirmation of the head may be before nothing cached counts */
  readonly maxAgeMs: number;
  /** how long the head may stay the same before the endpoint counts as stuck */
  readonly maxSilenceMs: number;
}

interface KnownHead extends Head {
  readonly hash: string;
  readonly parentHash: string;
}

const MAX_GAP_BLOCKS = 500;

/** A range is asked for with a few blocks already seen: a lagging endpoint answers a range with less, not an error. */
const OVERLAP_BLOCKS = 2;

/** Times are milliseconds of a clock that never goes back. */
export class ConfirmedHead {
  readonly listeners = new Set<HeadListener>();
  readonly #options: ConfirmedHeadOptions;
  #known: KnownHead | undefined;
  #confirmedAtMs = Number.NEGATIVE_INFINITY;
  #advancedAtMs = Number.NEGATIVE_INFINITY;
  #blockMs: number | undefined;

  constructor(options: ConfirmedHeadOptions) {
    this.#options = options;
  }

  get confirmedAtMs(): number {
    return this.#confirmedAtMs;
  }

  /** The chain's own pace, as last seen. */
  get blockMs(): number | undefined {
    return this.#blockMs;
  }

  /** Returns the head when it was confirmed recently enough. */
  at(nowMs: number): Head | undefined {
    const { maxAgeMs, maxSilenceMs } = this.#options;
    const usable = nowMs - this.#confirmedAtMs <= maxAgeMs && nowMs - this.#advancedAtMs <= maxSilenceMs;
    return usable ? this.#known : undefined;
  }

  /** Reads the chain's head, which was asked for at `nowMs`, and notifies the listeners. */
  async refresh(nowMs: number): Promise<void> {
    const { rpc, turnpike, maxAgeMs } = this.#options;
    const next = await readBlock(rpc, "latest");
    const known = this.#known;
    if (!known) return this.#adopt(next, nowMs);
    if (next.number < known.number) {
      // An endpoint that lags confirms nothing. When that lasts, the chain itself was rolled back or replaced.
      if (nowMs - this.#confirmedAtMs > maxAgeMs) this.#reset(next, nowMs);
      return;
    }
    if (next.number === known.number) {
      if (next.hash !== known.hash) return this.#reset(next, nowMs);
      this.#confirmedAtMs = nowMs;
      return;
    }
    const isGap = next.number - known.number > MAX_GAP_BLOCKS;
    if (isGap || !(await continues(rpc, known, next))) return this.#reset(next, nowMs);
    this.#blockMs = (nowMs - this.#advancedAtMs) / (next.number - known.number);
    const touched = turnpike ? await touchedBetween(rpc, turnpike, known, next) : new Set<string>();
    this.#adopt(next, nowMs);
    for (const listener of this.listeners) listener.onAdvance(next, touched);
  }

  #adopt(next: KnownHead, nowMs: number): void {
    this.#known = next;
    this.#confirmedAtMs = nowMs;
    this.#advancedAtMs = nowMs;
    this.#options.clock.observe(next);
  }

  #reset(next: KnownHead, nowMs: number): void {
    this.#options.clock.reset();
    this.#adopt(next, nowMs);
    for (const listener of this.listeners) listener.onReset();
  }
}

async function continues(rpc: Rpc, before: KnownHead, next: KnownHead): Promise<boolean> {
  if (next.number === before.number + 1) return next.parentHash === before.hash;
  return (await readBlock(rpc, `0x${before.number.toString(16)}`)).hash === before.hash;
}

async function touchedBetween(rpc: Rpc, address: Address, before: KnownHead, next: KnownHead): Promise<Set<string>> {
  const fromBlock = `0x${Math.max(0, before.number + 1 - OVERLAP_BLOCKS).toString(16)}`;
  const range =
    next.number === before.number + 1
      ? { blockHash: next.hash }
      : { fromBlock, toBlock: `0x${next.number.toString(16)}` };
  const logs = await rpc.send<RawLog[]>("eth_getLogs", [{ address, ...range }]);
  if (!Array.isArray(logs)) throw new Unavailable("The chain answered eth_getLogs with something else than logs.");
  return new Set(logs.flatMap(({ topics }) => (topics[0] === PLAN_ENDED ? topics : topics.slice(1))));
}

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
