/**
 * Indexes the chain into rows, one transaction per block, so that rows, events and cursor never disagree. Follows the
 * head at `confirmations` depth. Reverts applied blocks first when a block's parent is not the applied one.
 */
import type { Logger } from "pino";
import { type ChainClock, createChainClock } from "turnpike/chain";
import { type Hex, isTurnpikeError, TurnpikeError, Unavailable } from "turnpike/protocol";
import type { ChainBlock, ChainLog, ChainReader } from "../chain/chain-reader";
import { factsOf, KNOWN_TOPICS, TURNPIKE_TOPICS } from "../chain/facts";
import { silentAfterMs } from "../chain/node-health";
import type { FacilitatorConfig } from "../config";
import { createRoleLease } from "../db/leases";
import type { Store } from "../db/open";
import type { EventFeed } from "../events/feed";
import { repeat } from "../lib/loop";
import { createNotifier } from "../lib/notifier";
import type { Failpoint } from "../telemetry/failpoints";
import { createFaultLog } from "../telemetry/fault-log";
import { type BlockRow, blockAt, newestBlock } from "./applied-blocks";
import { type ChainProjections, createBlockWriter, type WriteMode, type Written } from "./block-writer";
import { crossCheck } from "./cross-check";
import { createKeptBlocks } from "./kept-blocks";
import { createLag } from "./lag";
import { createLinkedHead } from "./linked-head";
import { type ReadBlock, readBlock } from "./read-block";

export interface IndexerHealth {
  readonly ok: boolean;
  /** last applied block */
  readonly applied: number;
  readonly head: number | undefined;
  /** seconds since the chain was last read */
  readonly silentSec: number;
  /** whether no node has answered for too long */
  readonly isSilent: boolean;
  /**
   * Seconds between the applied blocks and those deep enough to be applied. At least the time since the newest block
   * was last read.
   */
  readonly lagSec: number;
  /** highest applied block that is still on the chain, when it lost some */
  readonly keptTo?: number;
}

export interface Indexer {
  /** chain time: the newest head's timestamp plus the monotonic time since; throws Unavailable before the first head */
  readonly clock: ChainClock;
  /** newest block that is linked to the applied ones */
  head(): ChainBlock | undefined;
  /** number of the last applied block; -1 before the first */
  applied(): number;
  /**
   * Returns the highest applied block that is still on the chain; later blocks confirm nothing. Infinity when all are.
   */
  keptTo(): number;
  /** Returns the milliseconds until the node probably has its next block; negative when that is overdue. */
  untilNextBlockMs(): number;
  /** Indexes up to the current head. @throws Unavailable */
  catchUp(): Promise<void>;
  /**
   * Waits until the block is applied.
   * @returns whether it is applied and still on the chain, at the latest after the timeout
   */
  waitApplied(blockNumber: number, timeoutMs: number): Promise<boolean>;
  health(): IndexerHealth;
  stop(): Promise<void>;
}

export interface IndexerOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly feed: EventFeed;
  readonly projections: ChainProjections;
  readonly chain: ChainReader;
  /** Returns whether this service sent a transaction: then its receipt is read without searching for a row. */
  readonly isOurs?: (transaction: Hex) => boolean;
  readonly log: Logger;
  readonly onStep: Failpoint;
  readonly monotonicMs?: () => number;
  /** last block to index */
  readonly untilBlock?: number;
  /** Called after each group of blocks, when indexing takes long. */
  readonly onProgress?: (place: { readonly applied: number; readonly target: number }) => void;
}

const READ_AHEAD = 16;

/** Minimum number of blocks that can be reverted, whatever FINALITY_DEPTH is. */
const MIN_UNDO_DEPTH = 128;

/** Blocks that one query covers when no reorganisation is possible and no row waits for a log. */
const SPAN = 500;

const PROGRESS_EVERY = 1_000;

/**
 * Around the time of the next block, polls EAGER times as often: from 1/EARLY of a block's time before it is due until
 * as long afterwards.
 */
const EAGER = 4;

const EARLY = 8;

/** One process indexes. The others follow what it writes, and one of them takes over when it is gone. */
const LEASE_MS = 3_000;

/** How long a follower waits for the block that it has to catch up with. */
const FOLLOW_MS = 5_000;

const tipOf = ({ number, hash, timestampSec }: ChainBlock): BlockRow => ({ number, hash, timestamp: timestampSec });

export async function startIndexer(options: IndexerOptions): Promise<Indexer> {
  const { config, store, feed, projections, chain, log, onStep, isOurs = () => false } = options;
  const { chainId } = config;
  const monotonicMs = options.monotonicMs ?? (() => performance.now());
  const clock = createChainClock({ monotonicMs });
  const sources = { chainId, turnpike: config.turnpike, tokens: config.tokens.map((token) => token.address) };
  const filter = { addresses: [config.turnpike, ...sources.tokens], topics: [KNOWN_TOPICS] };
  const reading = { chain, filter, sources, isOurs };
  const checking = { chain, projections: projections.blocks, isOurs };
  const undoDepth = Math.max(config.finalityDepth, MIN_UNDO_DEPTH);
  const reads = config.roles.includes("indexer");
  /** notifies in this process only; the others poll */
  const followed = createNotifier();
  const lease = createRoleLease({ store, chainId, role: "indexer", lifeMs: LEASE_MS, monotonicMs });
  const linkedHead = createLinkedHead(chain, config.confirmations);
  const writer = createBlockWriter({ store, feed, projections, chainId, undoDepth, startBlock: config.startBlock });
  const faults = createFaultLog({ log, monotonicMs });
  /** whether a block's events may be staged: by this process, or by one that died */
  let hasStagedEvents = true;
  let isTooDeep = false;
  let isSpanAllowed = true;
  /** newest block as the node returns it, and as the blocks below confirm it */
  let reportedHead: ChainBlock | undefined;
  let head: ChainBlock | undefined;
  /** newest applied block that this process knows; others may have written since */
  let tip: BlockRow | undefined = await newestBlock(store.db, chainId);
  const lag = createLag({ monotonicMs, blockTimeMs: config.blockTimeMs });
  /** indexing ends before the next block */
  let isStopping = false;
  const kept = createKeptBlocks({ store, chain, chainId, onChange: keptChanged });
  const isLocal = config.network.name.startsWith("local-");
  let lastReadMs = monotonicMs();
  /** earliest time at which the newest block may have existed */
  let newHeadMs = lastReadMs;
  let running: Promise<void> | undefined;

  const applied = (): number => tip?.number ?? config.startBlock - 1;
  const untilNextBlockMs = (): number => newHeadMs + config.blockTimeMs - monotonicMs();

  /** Notifies the projections that another block than this process's last one may be the newest. */
  function tipMoved(): void {
    for (const projection of projections.blocks) projection.tipMoved?.();
  }

  async function readTip(): Promise<BlockRow | undefined> {
    const newest = await newestBlock(store.db, chainId);
    tip = newest;
    return newest;
  }

  function keptChanged(to: number): void {
    if (to === Number.POSITIVE_INFINITY) log.info({ applied: applied() }, "every applied block is on the chain");
    else log.warn({ applied: applied(), keptTo: to }, "the chain's head moved back: later payments are not confirmed");
    // Requests that wait for a confirmation read their rows again.
    store.wake.notify("block");
    followed.notify("applied");
  }

  async function refresh(): Promise<ChainBlock> {
    const beforeMs = lastReadMs;
    const newest = await chain.head();
    lastReadMs = monotonicMs();
    if (newest.hash !== reportedHead?.hash) newHeadMs = Math.max(beforeMs, lastReadMs - config.pollMs);
    reportedHead = newest;
    lag.see(targetOf(newest));
    return newest;
  }

  const targetOf = ({ number }: ChainBlock): number =>
    Math.min(number - (config.confirmations - 1), options.untilBlock ?? number);

  /** Follows the process that indexes: its committed rows are the state here. */
  async function follow(): Promise<void> {
    hasStagedEvents = true;
    await refresh();
    tipMoved();
    const before = applied();
    await readTip();
    if (applied() !== before) followed.notify("applied");
    if (reportedHead) await kept.compare(reportedHead, tip);
    // The indexing process may not have reached the node's newest block, so the head is the one that belongs to its
    // rows.
    if (reportedHead && isTooShort(reportedHead)) {
      await linkedHead.follow(reportedHead);
      setHead(reportedHead);
    }
    if (applied() < config.startBlock) return;
    const newest = await chain.block(applied() + config.confirmations - 1);
    if (newest) await confirmHead(newest, await linkedHead.follow(newest));
  }

  async function round(): Promise<void> {
    await publishStaged();
    const newest = await refresh();
    await kept.compare(newest, tip);
    const lowest = await linkedHead.follow(newest);
    const target = targetOf(newest);
    if (!isNext(lowest)) await resolveFork(newest);
    if (isTooShort(newest)) setHead(newest);
    // When the block is already applied, the head is confirmed without indexing.
    if (applied() === lowest.number) await confirmHead(newest, lowest);
    while (applied() < target && !isStopping) {
      if (await canReadSpan(target)) {
        if (!(await readSpan(applied() + 1, Math.min(applied() + SPAN, target - undoDepth)))) return;
        options.onProgress?.({ applied: applied(), target });
        continue;
      }
      const first = applied() + 1;
      const numbers = Array.from({ length: Math.min(READ_AHEAD, target - applied()) }, (_, index) => first + index);
      const reads = await Promise.all(numbers.map((number) => readBlock(reading, number, lowest)));
      for (let place = 0; place < reads.length && !isStopping; place++) {
        const empty = emptyPrefix(reads.slice(place));
        if (empty.length > 0 && !(await applyEmpty(empty))) {
          if (await isOvertaken()) break;
          return;
        }
        place += empty.length;
        const read = reads[place];
        if (!read || read.block.number !== applied() + 1) return;
        await apply(read, "next");
        // The block does not follow the applied one: a reorganisation, or a node that contradicts itself. The next
        // round finds out.
        if (applied() < read.block.number) return;
        // Another process has applied more.
        if (applied() > read.block.number) break;
      }
      options.onProgress?.({ applied: applied(), target });
      if (applied() === lowest.number) await confirmHead(newest, lowest);
      await publishStaged();
      if (applied() % PROGRESS_EVERY < READ_AHEAD && target - applied() > READ_AHEAD)
        log.info({ applied: applied(), target }, "reading the chain");
    }
  }

  /** Returns whether a block directly follows the last applied one, as most do; no fork has to be searched for then. */
  const isNext = ({ number, parentHash }: ChainBlock): boolean =>
    !isTooDeep && tip !== undefined && number === tip.number + 1 && parentHash === tip.hash;

  /** Returns the next blocks without facts, except the last of them, which is applied like any other. */
  function emptyPrefix(reads: readonly (ReadBlock | undefined)[]): ChainBlock[] {
    const empty: ChainBlock[] = [];
    for (const read of reads) {
      const below = empty.at(-1);
      if (read?.block.number !== applied() + 1 + empty.length) break;
      if (below && read.block.parentHash !== below.hash) break;
      if (read.facts.length > 0) break;
      empty.push(read.block);
    }
    return empty.slice(0, -1);
  }

  /** Applies empty blocks in one transaction, so that a process that is behind with little CPU can catch up. */
  async function applyEmpty(blocks: readonly ChainBlock[]): Promise<boolean> {
    const written = await writer.writeEmptyBlocks(blocks);
    if (!written) return false;
    const last = blocks.at(-1);
    if (last) tip = tipOf(last);
    tipMoved();
    if (written.unmined > 0) store.wake.notify("lane");
    store.wake.notify("block");
    return true;
  }

  /** Reads the tip that another process has written, to continue from there. @returns whether it is further */
  async function isOvertaken(): Promise<boolean> {
    const before = applied();
    await readTip();
    tipMoved();
    store.wake.notify("block");
    return applied() > before;
  }

  /**
   * Sets the head once it is linked to the applied blocks. A head that a node merely reports must not move chain time
   * or confirmations.
   */
  async function confirmHead(newest: ChainBlock, lowest: ChainBlock): Promise<void> {
    if (head?.hash === newest.hash) return;
    if ((await blockAt(store.db, chainId, lowest.number))?.hash !== lowest.hash) return;
    setHead(newest);
  }

  /**
   * Returns whether the chain is so short that no block is deep enough to be applied. Its newest block is the head
   * then, after the link check.
   */
  const isTooShort = (newest: ChainBlock): boolean =>
    applied() < config.startBlock && config.startBlock <= newest.number && targetOf(newest) < config.startBlock;

  function setHead(newest: ChainBlock): void {
    if (head?.hash === newest.hash) return;
    if (head && head.number > newest.number) clock.reset();
    head = newest;
    clock.observe({ number: newest.number, timestampSec: newest.timestampSec });
  }

  /**
   * Returns whether to read only Turnpike's logs, which is faster far behind the head. Impossible while a row waits for
   * another log; other payments are found by query when requested.
   */
  async function canReadSpan(target: number): Promise<boolean> {
    if (!isSpanAllowed || target - applied() <= undoDepth * 2) return false;
    const waiting = await Promise.all(projections.blocks.map((projection) => projection.isWaiting?.() ?? false));
    return !waiting.includes(true);
  }

  /** @returns whether indexing can continue */
  async function readSpan(from: number, to: number): Promise<boolean> {
    let logs: ChainLog[];
    try {
      logs = await chain.logsBetween(from, to, { addresses: [config.turnpike], topics: [TURNPIKE_TOPICS] });
    } catch (error) {
      if (isTurnpikeError(error)) throw error;
      log.warn({ from, to }, "a node rejects log queries over many blocks; indexing block by block");
      isSpanAllowed = false;
      return true;
    }
    const byBlock = new Map<number, ChainLog[]>([[to, []]]);
    for (const one of logs) byBlock.set(one.blockNumber, [...(byBlock.get(one.blockNumber) ?? []), one]);
    const numbers = [...byBlock.keys()].sort((a, b) => a - b);
    for (const number of numbers) {
      if (isStopping) return false;
      const block = await chain.block(number);
      const ofBlock = byBlock.get(number) ?? [];
      if (!block || ofBlock.some((one) => one.blockHash !== block.hash)) return false;
      await apply({ block, logs: ofBlock, facts: factsOf(sources, ofBlock) }, "span");
    }
    log.info({ applied: applied() }, "reading the chain");
    return true;
  }

  /** Reverts blocks until the newest applied one is on the node's chain. */
  async function resolveFork(newest: ChainBlock): Promise<void> {
    for (;;) {
      const ours = await readTip();
      if (!ours) return;
      if (ours.number > newest.number) {
        // A node that is only behind will catch up.
        if (!(await isLost(ours, newest))) return;
        await revertBlock(ours.hash);
        continue;
      }
      const isKept = ours.number === newest.number && ours.hash === newest.hash;
      const theirs = isKept ? newest : await chain.block(ours.number);
      if (!theirs) return;
      if (theirs.hash === ours.hash) {
        isTooDeep = false;
        return;
      }
      // A payment is reverted only when the node's blocks agree about the reorganisation.
      const next = ours.number === newest.number ? newest : await chain.block(ours.number + 1);
      const isLinked = next && (next.number === ours.number ? next.hash : next.parentHash) === theirs.hash;
      if (!isLinked) throw new Unavailable("a node's blocks are not linked to each other");
      await revertBlock(ours.hash);
    }
  }

  /**
   * Returns whether the chain ends below an applied block and has lost it. The proof is another block at the end's
   * height. On a local chain no other node can be ahead, so the shorter chain is enough.
   */
  async function isLost(ours: BlockRow, newest: ChainBlock): Promise<boolean> {
    const [there, below] = await Promise.all([
      chain.block(ours.number),
      newest.number > 0 ? chain.block(newest.number - 1) : undefined,
    ]);
    if (there) return false;
    const known = await blockAt(store.db, chainId, newest.number);
    const hasBranched = known !== undefined && known.hash !== newest.hash;
    if (!hasBranched && !isLocal) return false;
    if (newest.number > 0 && below?.hash !== newest.parentHash)
      throw new Unavailable("a node's blocks are not linked to each other");
    return !(await kept.isElsewhere(ours));
  }

  /** @param expected hash of the block to revert: another process may have reverted it already */
  async function revertBlock(expected: string): Promise<void> {
    tipMoved();
    const outcome = await writer.revertNewest(expected);
    if (outcome.kind === "too-deep") {
      isTooDeep = true;
      throw new TurnpikeError(
        "Internal",
        "the chain was reorganised deeper than can be taken back: start with an empty database",
      );
    }
    await readTip();
    if (outcome.kind === "other") return;
    const events = outcome.reversals.reduce((sum, reversal) => sum + reversal.events.length, 0);
    log.warn({ hash: expected, events }, "a block was reorganised away");
    for (const reversal of outcome.reversals) reversal.committed?.();
    for (const key of ["events", "lane", "block"]) store.wake.notify(key);
  }

  async function apply({ block, logs, facts, receipts: early }: ReadBlock, mode: WriteMode): Promise<void> {
    const [expired, receipts] = await Promise.all([
      findExpired(block.number - config.finalityDepth),
      mode === "next" ? crossCheck(checking, { block, logs, facts, receipts: early }) : [],
    ]);
    const written = await writer.write({ chainId, block, facts, expired }, mode, receipts);
    if (written) {
      tip = tipOf(block);
      notifyWritten(block, written);
    } else {
      await readTip();
      tipMoved();
    }
    store.wake.notify("block");
    hasStagedEvents ||= written?.isStaged ?? false;
  }

  async function findExpired(finalBlock: number): Promise<Hex[]> {
    const ids = await Promise.all(projections.blocks.map((one) => one.findExpired?.(chain, finalBlock) ?? []));
    return ids.flat();
  }

  async function publishStaged(): Promise<void> {
    if (!hasStagedEvents) return;
    await writer.publishStaged();
    hasStagedEvents = false;
    store.wake.notify("events");
  }

  function notifyWritten({ number }: ChainBlock, { changes, events, isStaged, mined, unmined }: Written): void {
    if (mined.length > 0) {
      log.info({ block: number, transactions: mined.length, events }, "transactions mined");
      onStep("mined");
    }
    for (const change of changes) change.committed?.();
    for (const id of mined) store.wake.notify(`tx:${id}`);
    if (events > 0 && !isStaged) store.wake.notify("events");
    // Mined transactions free their slots in the lanes.
    if (mined.length + unmined > 0) store.wake.notify("lane");
  }

  function runOnce(act = round): Promise<void> {
    running ??= act().finally(() => {
      running = undefined;
    });
    return running;
  }

  const loop = repeat(
    async () => {
      try {
        await runOnce(reads && (await lease.hold()) ? round : follow);
        faults.recovered("round");
      } catch (error) {
        // A block may have been written although its commit was not answered, so its events may be staged.
        hasStagedEvents = true;
        faults.met("round", error, "reading the chain failed");
      }
    },
    // The indexing process has its own pace. A follower is notified of each block, and polls as well.
    () => store.wake.wait(reads ? "indexer" : "block", reads ? untilNextLook() : config.pollMs),
  );

  /**
   * Returns the pause until the next poll; shorter around the time when the next block is due, because payers wait for
   * it.
   */
  function untilNextLook(): number {
    const slackMs = config.blockTimeMs / EARLY;
    const eagerMs = config.pollMs / EAGER;
    const aheadMs = untilNextBlockMs() - slackMs;
    if (aheadMs > 0) return Math.min(config.pollMs, Math.max(aheadMs, eagerMs));
    return -aheadMs < 2 * slackMs + config.pollMs ? eagerMs : config.pollMs;
  }

  return {
    clock,
    head: () => head,
    applied,
    keptTo: () => kept.to(),
    untilNextBlockMs,
    async catchUp() {
      // The current round may have read the head before the block that the caller waits for.
      await running?.catch(() => undefined);
      await runOnce(reads ? round : follow);
      if (reads || !reportedHead) return;
      // The indexing process may be a moment behind. If it stalls, health reports it.
      await waitApplied(targetOf(reportedHead), FOLLOW_MS);
      await runOnce(follow);
    },
    waitApplied,
    health() {
      const silentMs = monotonicMs() - lastReadMs;
      const isSilent = silentMs >= silentAfterMs(config);
      // The pause between two polls does not count as lag.
      const unseenSec = Math.max(0, Math.round((silentMs - Math.max(config.pollMs, config.blockTimeMs)) / 1_000));
      const waitingSec =
        reportedHead === undefined ? 0 : lag.sec(targetOf(reportedHead), reportedHead.timestampSec, applied(), tip);
      const isWhole = kept.to() === Number.POSITIVE_INFINITY;
      return {
        ok: !isTooDeep && isWhole && head !== undefined && !isSilent,
        applied: applied(),
        head: reportedHead?.number,
        silentSec: Math.round(silentMs / 1_000),
        isSilent,
        lagSec: Math.max(waitingSec, unseenSec),
        ...(!isWhole && { keptTo: kept.to() }),
      };
    },
    async stop() {
      isStopping = true;
      followed.close();
      await loop.stop();
      // A caller's round may be running beside the loop's.
      await running?.catch(() => undefined);
      await lease.release();
    },
  };

  async function waitApplied(blockNumber: number, timeoutMs: number): Promise<boolean> {
    const untilMs = monotonicMs() + timeoutMs;
    const isThere = () => applied() >= blockNumber && blockNumber <= kept.to();
    while (!isThere() && monotonicMs() < untilMs) {
      await Promise.race([
        store.wake.wait("block", Math.max(1, Math.min(500, untilMs - monotonicMs()))),
        followed.wait("applied", Math.max(1, Math.min(500, untilMs - monotonicMs()))),
      ]);
    }
    return isThere();
  }
}
