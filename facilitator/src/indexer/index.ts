/**
 * Reads the chain, block after block, into rows: one transaction per block, so that rows, events and cursor never
 * disagree. Follows the head at `confirmations` depth; a block whose parent is not the one applied is taken back first.
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
  /** no node has answered for too long */
  readonly isSilent: boolean;
  /**
   * Seconds that the applied blocks are behind those that are deep enough to be applied, and at least as long as the
   * newest block was last seen.
   */
  readonly lagSec: number;
  /** highest applied block that the chain still has, where it has lost some */
  readonly keptTo?: number;
}

export interface Indexer {
  /** chain time: the newest head's timestamp and the monotonic time since; throws Unavailable before the first head */
  readonly clock: ChainClock;
  /** the newest block that stands on the applied ones */
  head(): ChainBlock | undefined;
  /** number of the last applied block; -1 before the first */
  applied(): number;
  /** Highest applied block that the chain still has: of later ones nothing is confirmed. Infinity while it has them all. */
  keptTo(): number;
  /** Milliseconds until the node is likely to have its next block; below 0 when that is overdue. */
  untilNextBlockMs(): number;
  /** Reads to the head as it is now. @throws Unavailable */
  catchUp(): Promise<void>;
  /** @returns whether the block is applied and the chain still has it, at the latest when the time is up */
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
  /** Whether a transaction is one of this service's: its receipt is asked for without looking whom it concerns. */
  readonly isOurs?: (transaction: Hex) => boolean;
  readonly log: Logger;
  readonly onStep: Failpoint;
  readonly monotonicMs?: () => number;
  /** Reads to here and no further. */
  readonly untilBlock?: number;
  /** Told after each stretch, where reading takes long. */
  readonly onProgress?: (place: { readonly applied: number; readonly target: number }) => void;
}

const READ_AHEAD = 16;

/** Blocks that can be taken back, whatever is held to be final. */
const MIN_UNDO_DEPTH = 128;

/** Blocks that are read at once where nothing can be reorganised and no row waits for a log. */
const SPAN = 500;

const PROGRESS_EVERY = 1_000;

/** So many times as often as otherwise, from this part of a block's time before it is due until as long after it. */
const EAGER = 4;

const EARLY = 8;

/** One process reads; the others follow what it writes, and one of them goes on when it is gone. */
const LEASE_MS = 3_000;

/** How long a follower waits for the block it was asked to catch up with. */
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
  /** in this process alone: the others see for themselves */
  const followed = createNotifier();
  const lease = createRoleLease({ store, chainId, role: "indexer", lifeMs: LEASE_MS, monotonicMs });
  const linkedHead = createLinkedHead(chain, config.confirmations);
  const writer = createBlockWriter({ store, feed, projections, chainId, undoDepth, startBlock: config.startBlock });
  const faults = createFaultLog({ log, monotonicMs });
  /** a block's events may be stored and not told: by this process, or by one that has died */
  let hasStagedEvents = true;
  let isTooDeep = false;
  let isSpanAllowed = true;
  /** as the node tells it, and as the blocks below it confirm it */
  let toldHead: ChainBlock | undefined;
  let head: ChainBlock | undefined;
  /** the newest applied block, as far as this process knows: others may have written since */
  let tip: BlockRow | undefined = await newestBlock(store.db, chainId);
  const lag = createLag({ monotonicMs, blockTimeMs: config.blockTimeMs });
  /** the reading ends at the next block */
  let isStopping = false;
  const kept = createKeptBlocks({ store, chain, chainId, onChange: keptChanged });
  const isLocal = config.network.name.startsWith("local-");
  let lastReadMs = monotonicMs();
  /** since when the newest block may have been there */
  let newHeadMs = lastReadMs;
  let running: Promise<void> | undefined;

  const applied = (): number => tip?.number ?? config.startBlock - 1;
  const untilNextBlockMs = (): number => newHeadMs + config.blockTimeMs - monotonicMs();

  /** The newest block is no longer the one that this process has written last. */
  function tipMoved(): void {
    for (const projection of projections.blocks) projection.tipMoved?.();
  }

  async function readTip(): Promise<BlockRow | undefined> {
    const newest = await newestBlock(store.db, chainId);
    tip = newest;
    return newest;
  }

  function keptChanged(to: number): void {
    if (to === Number.POSITIVE_INFINITY) log.info({ applied: applied() }, "the chain has every applied block");
    else log.warn({ applied: applied(), keptTo: to }, "the chain's head moved back: later payments are not confirmed");
    // Requests that wait for a confirmation read again.
    store.wake.notify("block");
    followed.notify("applied");
  }

  async function refresh(): Promise<ChainBlock> {
    const beforeMs = lastReadMs;
    const newest = await chain.head();
    lastReadMs = monotonicMs();
    if (newest.hash !== toldHead?.hash) newHeadMs = Math.max(beforeMs, lastReadMs - config.pollMs);
    toldHead = newest;
    lag.see(targetOf(newest));
    return newest;
  }

  const targetOf = ({ number }: ChainBlock): number =>
    Math.min(number - (config.confirmations - 1), options.untilBlock ?? number);

  /** Another process reads: what it has committed is what is known here. */
  async function follow(): Promise<void> {
    hasStagedEvents = true;
    await refresh();
    tipMoved();
    const before = applied();
    await readTip();
    if (applied() !== before) followed.notify("applied");
    if (toldHead) await kept.compare(toldHead, tip);
    // The node's newest block may be one that the reader has not come to: the one that belongs to what it has is believed.
    if (toldHead && isTooShort(toldHead)) {
      await linkedHead.follow(toldHead);
      setHead(toldHead);
    }
    if (applied() < config.startBlock) return;
    const newest = await chain.block(applied() + config.confirmations - 1);
    if (newest) await confirmHead(newest, await linkedHead.follow(newest));
  }

  async function round(): Promise<void> {
    await tellStaged();
    const newest = await refresh();
    await kept.compare(newest, tip);
    const lowest = await linkedHead.follow(newest);
    const target = targetOf(newest);
    if (!isNext(lowest)) await resolveFork(newest);
    if (isTooShort(newest)) setHead(newest);
    // What is applied already needs no reading to be believed.
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
        const quiet = emptyPrefix(reads.slice(place));
        if (quiet.length > 0 && !(await applyQuiet(quiet))) {
          if (await isOvertaken()) break;
          return;
        }
        place += quiet.length;
        const read = reads[place];
        if (!read || read.block.number !== applied() + 1) return;
        await apply(read, "next");
        // It does not stand on what is written: reorganised away, or a node contradicts itself. The next round sees which.
        if (applied() < read.block.number) return;
        // Another process is further.
        if (applied() > read.block.number) break;
      }
      options.onProgress?.({ applied: applied(), target });
      if (applied() === lowest.number) await confirmHead(newest, lowest);
      await tellStaged();
      if (applied() % PROGRESS_EVERY < READ_AHEAD && target - applied() > READ_AHEAD)
        log.info({ applied: applied(), target }, "reading the chain");
    }
  }

  /** Most blocks stand right on the last one that was applied: then there is nothing to look back at. */
  const isNext = ({ number, parentHash }: ChainBlock): boolean =>
    !isTooDeep && tip !== undefined && number === tip.number + 1 && parentHash === tip.hash;

  /** The next blocks that tell nothing, but for the last of them, which is applied as any other. */
  function emptyPrefix(reads: readonly (ReadBlock | undefined)[]): ChainBlock[] {
    const quiet: ChainBlock[] = [];
    for (const read of reads) {
      const below = quiet.at(-1);
      if (read?.block.number !== applied() + 1 + quiet.length) break;
      if (below && read.block.parentHash !== below.hash) break;
      if (read.facts.length > 0) break;
      quiet.push(read.block);
    }
    return quiet.slice(0, -1);
  }

  /** One transaction for all: whoever is behind, with little of a processor, is not to stay behind. */
  async function applyQuiet(blocks: readonly ChainBlock[]): Promise<boolean> {
    const written = await writer.writeEmptyBlocks(blocks);
    if (!written) return false;
    const last = blocks.at(-1);
    if (last) tip = tipOf(last);
    tipMoved();
    if (written.unmined > 0) store.wake.notify("lane");
    store.wake.notify("block");
    return true;
  }

  /** Another process has written meanwhile: what follows is read from where it is. */
  async function isOvertaken(): Promise<boolean> {
    const before = applied();
    await readTip();
    tipMoved();
    store.wake.notify("block");
    return applied() > before;
  }

  /** Chain time and depth are counted from a head that stands on what is applied, never from what a node merely says. */
  async function confirmHead(newest: ChainBlock, lowest: ChainBlock): Promise<void> {
    if (head?.hash === newest.hash) return;
    if ((await blockAt(store.db, chainId, lowest.number))?.hash !== lowest.hash) return;
    setHead(newest);
  }

  /** A chain so young that no block of it is deep enough to be applied: its newest one, which is linked, is all there is. */
  const isTooShort = (newest: ChainBlock): boolean =>
    applied() < config.startBlock && config.startBlock <= newest.number && targetOf(newest) < config.startBlock;

  function setHead(newest: ChainBlock): void {
    if (head?.hash === newest.hash) return;
    if (head && head.number > newest.number) clock.reset();
    head = newest;
    clock.observe({ number: newest.number, timestampSec: newest.timestampSec });
  }

  /** Far behind, Turnpike's logs alone are read, unless a row waits for another: what nobody waits for is found when asked for. */
  async function canReadSpan(target: number): Promise<boolean> {
    if (!isSpanAllowed || target - applied() <= undoDepth * 2) return false;
    const waiting = await Promise.all(projections.blocks.map((projection) => projection.isWaiting?.() ?? false));
    return !waiting.includes(true);
  }

  /** @returns whether the reading can go on */
  async function readSpan(from: number, to: number): Promise<boolean> {
    let logs: ChainLog[];
    try {
      logs = await chain.logsBetween(from, to, { addresses: [config.turnpike], topics: [TURNPIKE_TOPICS] });
    } catch (error) {
      if (isTurnpikeError(error)) throw error;
      log.warn({ from, to }, "a node refuses to tell the logs of many blocks: reading one by one");
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

  /** Takes back blocks until the newest applied one is on the chain that the node tells now. */
  async function resolveFork(newest: ChainBlock): Promise<void> {
    for (;;) {
      const ours = await readTip();
      if (!ours) return;
      if (ours.number > newest.number) {
        // A node that is merely behind is waited for.
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
      // Money is taken for gone only when the node's blocks agree about it.
      const next = ours.number === newest.number ? newest : await chain.block(ours.number + 1);
      const isLinked = next && (next.number === ours.number ? next.hash : next.parentHash) === theirs.hash;
      if (!isLinked) throw new Unavailable("a node's blocks do not stand on each other");
      await revertBlock(ours.hash);
    }
  }

  /**
   * Whether the chain ends below an applied block and has lost it: another block stands at the end's height, or, on a
   * local chain, where no other node can be ahead, the end alone shows it.
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
      throw new Unavailable("a node's blocks do not stand on each other");
    return !(await kept.isElsewhere(ours));
  }

  /** @param expected hash of the block to take back: another process may have done so already */
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
      tell(block, written);
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

  async function tellStaged(): Promise<void> {
    if (!hasStagedEvents) return;
    await writer.publishStaged();
    hasStagedEvents = false;
    store.wake.notify("events");
  }

  function tell({ number }: ChainBlock, { changes, events, isStaged, mined, unmined }: Written): void {
    if (mined.length > 0) {
      log.info({ block: number, transactions: mined.length, events }, "transactions mined");
      onStep("mined");
    }
    for (const change of changes) change.committed?.();
    for (const id of mined) store.wake.notify(`tx:${id}`);
    if (events > 0 && !isStaged) store.wake.notify("events");
    // Those of ours that are mined leave their slots to others.
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
        // A block may have been written although its commit was not answered: its events are looked for again.
        hasStagedEvents = true;
        faults.met("round", error, "reading the chain failed");
      }
    },
    // A reader has its own pace; a follower is told of each block, and looks all the same.
    () => store.wake.wait(reads ? "indexer" : "block", reads ? untilNextLook() : config.pollMs),
  );

  /** Around the time when the next block is due it is looked for more often: payers wait for it. */
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
      // The round that runs may have looked at the head before what the caller waits for.
      await running?.catch(() => undefined);
      await runOnce(reads ? round : follow);
      if (reads || !toldHead) return;
      // Whoever reads may be a moment behind. Standing still is told by health, not here.
      await waitApplied(targetOf(toldHead), FOLLOW_MS);
      await runOnce(follow);
    },
    waitApplied,
    health() {
      const silentMs = monotonicMs() - lastReadMs;
      const isSilent = silentMs >= silentAfterMs(config);
      // A reader looks once in a while: the pause until then is no lateness.
      const unseenSec = Math.max(0, Math.round((silentMs - Math.max(config.pollMs, config.blockTimeMs)) / 1_000));
      const waitingSec =
        toldHead === undefined ? 0 : lag.sec(targetOf(toldHead), toldHead.timestampSec, applied(), tip);
      const isWhole = kept.to() === Number.POSITIVE_INFINITY;
      return {
        ok: !isTooDeep && isWhole && head !== undefined && !isSilent,
        applied: applied(),
        head: toldHead?.number,
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
      // A caller's reading may be under way beside the loop's.
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
