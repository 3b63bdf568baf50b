/**
 * Indexes the chain into rows, one transaction per block, so that rows, events and cursor never disagree. Follows the
 * head at `confirmations` depth. Reverts applied blocks first when a block's parent is not the applied one.
 */
import type { Logger } from "pino";
import type { ChainClock } from "turnpike/chain";
import type { Hex } from "turnpike/protocol";
import type { ChainBlock, ChainReader } from "../chain/chain-reader";
import type { FacilitatorConfig } from "../config";
import { createRoleLease } from "../db/leases";
import type { Store } from "../db/open";
import type { EventFeed } from "../events/feed";
import { repeat } from "../lib/loop";
import type { MiningMetrics } from "../relayer/transactions";
import type { Failpoint } from "../telemetry/failpoints";
import { createFaultLog, type FaultLog } from "../telemetry/fault-log";
import { newestBlock } from "./applied-blocks";
import { AppliedTip } from "./applied-tip";
import { BlockApplier } from "./block-applier";
import { BlockSync } from "./block-sync";
import { type ChainProjections, createBlockWriter } from "./block-writer";
import { Follower } from "./follower";
import { ForkResolver, type ReorganisationMetrics } from "./fork-resolver";
import { HeadTracker } from "./head-tracker";

export interface IndexerHealth {
  readonly ok: boolean;
  readonly applied: number;
  readonly head: number | undefined;
  readonly silentSec: number;
  /** whether no node has answered for too long */
  readonly isSilent: boolean;
  /**
   * Seconds between the applied blocks and those deep enough to be applied. At least the time since the newest block
   * was last read.
   */
  readonly lagSec: number;
  readonly isIndexing: boolean;
  /** highest applied block that is still on the chain, when it lost some */
  readonly keptTo?: number;
  /** whether the chain was reorganised deeper than blocks can be reverted: a person has to decide */
  readonly isTooDeep: boolean;
  readonly headAgeSec: number;
}

export interface Indexer {
  /** chain time: the newest head's timestamp plus the monotonic time since; throws Unavailable before the first head */
  readonly clock: ChainClock;
  head(): ChainBlock | undefined;
  /** number of the last applied block; -1 before the first */
  applied(): number;
  /**
   * Returns the highest applied block that is still on the chain; later blocks confirm nothing. Infinity when all are.
   */
  keptTo(): number;
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
  readonly metrics?: (ReorganisationMetrics & MiningMetrics) | undefined;
  readonly onStep: Failpoint;
  readonly monotonicMs?: () => number;
  readonly untilBlock?: number;
  readonly onProgress?: (place: { readonly applied: number; readonly target: number }) => void;
}

/** Minimum number of blocks that can be reverted, whatever FINALITY_DEPTH is. */
const MIN_UNDO_DEPTH = 128;

/** How long a follower waits for the block that it has to catch up with. */
const FOLLOW_MS = 5_000;

export async function startIndexer(options: IndexerOptions): Promise<Indexer> {
  const { config, store, log } = options;
  const { chainId } = config;
  const monotonicMs = options.monotonicMs ?? (() => performance.now());
  const reads = config.roles.includes("indexer");
  const faults = createFaultLog({ log, monotonicMs });
  const { tip, heads, forks, applier, sync, follower } = await compose({ ...options, monotonicMs, faults });
  // One process indexes. The others follow what it writes, and one of them takes over when it is gone or reaches no node.
  const isAble = (): boolean => !heads.health().isSilent;
  const lease = createRoleLease({ store, chainId, role: "indexer", monotonicMs, isAble });
  let running: Promise<void> | undefined;

  /** Runs a round, or joins the one under way. */
  function runOnce(role: BlockSync | Follower): Promise<void> {
    running ??= role.round().finally(() => {
      running = undefined;
    });
    return running;
  }

  const loop = repeat(
    async () => {
      try {
        await runOnce(reads && (await lease.acquire()) ? sync : follower);
        faults.recovered("round");
      } catch (error) {
        // A block may have been written although its commit was not answered, so its events may be staged.
        applier.expectStaged();
        faults.met("round", error, "reading the chain failed");
      }
    },
    // The indexing process has its own pace. A follower is notified of each block, and polls as well.
    () => store.notifier.wait(reads ? "indexer" : "block", reads ? heads.untilNextPollMs() : config.pollMs),
  );

  const looking = repeat(
    // Each node's health has the failure.
    () => heads.look().catch(() => undefined),
    () => new Promise((resolve) => setTimeout(resolve, heads.lookAfterMs / 2).unref()),
  );

  return {
    clock: heads.clock,
    head: () => heads.confirmed,
    applied: () => tip.number,
    keptTo: () => tip.kept.to(),
    untilNextBlockMs: () => heads.untilNextBlockMs(),
    async catchUp() {
      // The current round may have read the head before the block that the caller waits for.
      await running?.catch(() => undefined);
      await runOnce(reads ? sync : follower);
      if (reads || !heads.reported) return;
      // The indexing process may be a moment behind. If it stalls, health reports it.
      await tip.waitFor(heads.targetOf(heads.reported), FOLLOW_MS);
      await runOnce(follower);
    },
    waitApplied: (blockNumber, timeoutMs) => tip.waitFor(blockNumber, timeoutMs),
    health() {
      const { silentSec, isSilent, lagSec, headAgeSec } = heads.health();
      const isWhole = tip.kept.to() === Number.POSITIVE_INFINITY;
      const isTooDeep = forks.isTooDeep || tip.isTooDeep;
      return {
        ok: !isTooDeep && isWhole && heads.confirmed !== undefined && !isSilent,
        applied: tip.number,
        head: heads.reported?.number,
        silentSec,
        isSilent,
        lagSec,
        isIndexing: lease.isHeld,
        isTooDeep,
        headAgeSec,
        ...(!isWhole && { keptTo: tip.kept.to() }),
      };
    },
    async stop() {
      sync.stop();
      tip.close();
      await Promise.all([loop.stop(), looking.stop()]);
      // A caller's round may be running beside the loop's.
      await running?.catch(() => undefined);
      await lease.release();
    },
  };
}

/** Builds the parts of an indexer, from the newest row of now. */
async function compose(options: IndexerOptions & { readonly monotonicMs: () => number; readonly faults: FaultLog }) {
  const { config, store, feed, projections, chain, log, metrics, onStep, monotonicMs, faults, onProgress } = options;
  const { isOurs = () => false } = options;
  const { chainId, startBlock } = config;
  const undoDepth = Math.max(config.finalityDepth, MIN_UNDO_DEPTH);
  const isLocal = config.network.name.startsWith("local-");
  const { blocks } = projections;
  const writer = createBlockWriter({ store, feed, projections, chainId, undoDepth, startBlock });
  const newest = await newestBlock(store.db, chainId);
  const tip = new AppliedTip(
    { store, chain, chainId, startBlock, projections: blocks, log, monotonicMs, undoDepth },
    newest,
  );
  const heads = new HeadTracker({ config, store, chain, tip, monotonicMs, untilBlock: options.untilBlock });
  const forks = new ForkResolver({ store, chain, chainId, tip, writer, log, metrics, isLocal });
  const applier = new BlockApplier({
    config,
    store,
    chain,
    projections: blocks,
    writer,
    tip,
    isOurs,
    log,
    metrics,
    onStep,
  });
  const sync = new BlockSync({
    config,
    store,
    chain,
    projections: blocks,
    tip,
    heads,
    forks,
    applier,
    undoDepth,
    isOurs,
    log,
    faults,
    onProgress,
  });
  const follower = new Follower({ config, chain, tip, heads, applier });
  return { tip, heads, forks, applier, sync, follower };
}
