/**
 * Reads the chain from the last applied block to the head, and applies it: block by block with read-ahead, or in spans
 * of Turnpike's logs far behind the head.
 */
import type { Logger } from "pino";
import { type Hex, isTurnpikeError, Unavailable } from "turnpike/protocol";
import type { ChainBlock, ChainLog, ChainReader } from "../chain/chain-reader";
import { factsOf, KNOWN_TOPICS, TURNPIKE_TOPICS } from "../chain/facts";
import { PROXIES, PROXY_TOPICS } from "../chain/permit2-settlements";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import type { BlockProjection } from "../events/projection";
import type { FaultLog } from "../telemetry/fault-log";
import type { AppliedTip } from "./applied-tip";
import type { BlockApplier } from "./block-applier";
import type { ForkResolver } from "./fork-resolver";
import type { HeadTracker } from "./head-tracker";
import { type BlockReading, type ReadBlock, readBlock } from "./read-block";

export interface BlockSyncOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly chain: ChainReader;
  readonly projections: readonly BlockProjection[];
  readonly tip: AppliedTip;
  readonly heads: HeadTracker;
  readonly forks: ForkResolver;
  readonly applier: BlockApplier;
  /** how many blocks below the newest one can be reverted */
  readonly undoDepth: number;
  readonly isOurs: (transaction: Hex) => boolean;
  readonly log: Logger;
  readonly faults: FaultLog;
  readonly onProgress?: ((place: { readonly applied: number; readonly target: number }) => void) | undefined;
}

const READ_AHEAD = 16;

/** Blocks that one query covers when no reorganisation is possible and no row waits for a log. */
const SPAN = 500;

const PROGRESS_EVERY = 1_000;

export class BlockSync {
  readonly #options: BlockSyncOptions;
  readonly #reading: BlockReading;
  #isSpanAllowed = true;
  #isStopping = false;
  /** hashes of the applied block and of the next one, when the last round ended because they are not linked */
  #unlinked: string | undefined;

  constructor(options: BlockSyncOptions) {
    this.#options = options;
    const { config, chain, isOurs } = options;
    const tokens = config.tokens.map((token) => token.address);
    this.#reading = {
      chain,
      filter: {
        addresses: [config.turnpike, ...tokens, ...(config.permit2 ? PROXIES : [])],
        topics: [config.permit2 ? [...KNOWN_TOPICS, ...PROXY_TOPICS] : KNOWN_TOPICS],
      },
      sources: { chainId: config.chainId, turnpike: config.turnpike, tokens },
      isOurs,
    };
  }

  stop(): void {
    this.#isStopping = true;
  }

  async round(): Promise<void> {
    const { tip, heads, forks, applier, undoDepth, log, onProgress } = this.#options;
    await applier.publishStaged();
    const newest = await heads.refresh();
    await tip.compare(newest);
    const lowest = await heads.link(newest);
    const target = heads.targetOf(newest);
    if (!forks.isNext(lowest)) await forks.resolve(newest);
    if (heads.isTooShort(newest)) heads.set(newest);
    // When the block is already applied, the head is confirmed without indexing.
    if (tip.number === lowest.number) await heads.confirm(newest, lowest);
    while (tip.number < target && !this.#isStopping) {
      if (await this.#canReadSpan(target)) {
        if (!(await this.#readSpan(tip.number + 1, Math.min(tip.number + SPAN, target - undoDepth)))) return;
        onProgress?.({ applied: tip.number, target });
        continue;
      }
      if (!(await this.#applyAll(await this.#readAhead(target, lowest)))) return;
      onProgress?.({ applied: tip.number, target });
      if (tip.number === lowest.number) await heads.confirm(newest, lowest);
      await applier.publishStaged();
      if (tip.number % PROGRESS_EVERY < READ_AHEAD && target - tip.number > READ_AHEAD)
        log.info({ applied: tip.number, target }, "reading the chain");
    }
  }

  #readAhead(target: number, lowest: ChainBlock): Promise<(ReadBlock | undefined)[]> {
    const first = this.#options.tip.number + 1;
    const numbers = Array.from({ length: Math.min(READ_AHEAD, target - first + 1) }, (_, index) => first + index);
    return Promise.all(numbers.map((number) => readBlock(this.#reading, number, lowest)));
  }

  /** Applies consecutive blocks. @returns whether indexing can continue */
  async #applyAll(reads: readonly (ReadBlock | undefined)[]): Promise<boolean> {
    const { tip, applier } = this.#options;
    for (let place = 0; place < reads.length && !this.#isStopping; place++) {
      const empty = this.#emptyPrefix(reads.slice(place));
      if (empty.length > 0 && !(await applier.applyEmpty(empty))) {
        if (await this.#isOvertaken()) return true;
        this.#warnOfUnlinked(empty[0]);
        return false;
      }
      place += empty.length;
      const read = reads[place];
      if (!read || read.block.number !== tip.number + 1) return false;
      await applier.apply(read, "next");
      // The block does not follow the applied one: a reorganisation, or a node that contradicts itself. The next
      // round finds out.
      if (tip.number < read.block.number) {
        this.#warnOfUnlinked(read.block);
        return false;
      }
      // Another process has applied more.
      if (tip.number > read.block.number) return true;
    }
    return true;
  }

  /** Returns the next blocks without facts, except the last of them, which is applied like any other. */
  #emptyPrefix(reads: readonly (ReadBlock | undefined)[]): ChainBlock[] {
    const empty: ChainBlock[] = [];
    for (const read of reads) {
      const below = empty.at(-1);
      if (read?.block.number !== this.#options.tip.number + 1 + empty.length) break;
      if (below && read.block.parentHash !== below.hash) break;
      if (read.facts.length > 0) break;
      empty.push(read.block);
    }
    return empty.slice(0, -1);
  }

  /** Reads the tip that another process has written, to continue from there. @returns whether it is further */
  async #isOvertaken(): Promise<boolean> {
    const { store, tip } = this.#options;
    const before = tip.number;
    await tip.read();
    tip.moved();
    store.notifier.notify("block");
    return tip.number > before;
  }

  /**
   * Warns when the next block is still not linked to the applied one, although the search for a fork has found none.
   * Not at the first time: the chain may have been reorganised since that search.
   */
  #warnOfUnlinked(next: ChainBlock | undefined): void {
    const { tip, faults } = this.#options;
    const ours = tip.block;
    if (!ours || next?.number !== ours.number + 1 || next.parentHash === ours.hash) return;
    const unlinked = `${ours.hash} ${next.hash}`;
    if (unlinked === this.#unlinked) {
      const reason = `the node's block ${next.number} is not linked to the applied block ${ours.number}; check the node`;
      faults.met("unlinked", new Unavailable(reason), "indexing does not continue until the next block is linked");
    } else {
      faults.recovered("unlinked");
    }
    this.#unlinked = unlinked;
  }

  /**
   * Returns whether to read only Turnpike's logs, which is faster far behind the head. Impossible while a row waits for
   * another log; other payments are found by query when requested.
   */
  async #canReadSpan(target: number): Promise<boolean> {
    const { tip, projections, undoDepth } = this.#options;
    if (!this.#isSpanAllowed || target - tip.number <= undoDepth * 2) return false;
    const waiting = await Promise.all(projections.map((projection) => projection.isWaiting?.() ?? false));
    return !waiting.includes(true);
  }

  /** @returns whether indexing can continue */
  async #readSpan(from: number, to: number): Promise<boolean> {
    const { config, chain, tip, applier, log } = this.#options;
    let logs: ChainLog[];
    try {
      logs = await chain.logsBetween(from, to, { addresses: [config.turnpike], topics: [TURNPIKE_TOPICS] });
    } catch (error) {
      if (isTurnpikeError(error)) throw error;
      log.warn({ from, to }, "a node rejects log queries over many blocks; indexing block by block");
      this.#isSpanAllowed = false;
      return true;
    }
    const byBlock = new Map<number, ChainLog[]>([[to, []]]);
    for (const one of logs) byBlock.set(one.blockNumber, [...(byBlock.get(one.blockNumber) ?? []), one]);
    const numbers = [...byBlock.keys()].sort((a, b) => a - b);
    for (const number of numbers) {
      if (this.#isStopping) return false;
      const block = await chain.block(number);
      const ofBlock = byBlock.get(number) ?? [];
      if (!block || ofBlock.some((one) => one.blockHash !== block.hash)) return false;
      await applier.apply({ block, logs: ofBlock, facts: factsOf(this.#reading.sources, ofBlock) }, "span");
    }
    log.info({ applied: tip.number }, "reading the chain");
    return true;
  }
}
