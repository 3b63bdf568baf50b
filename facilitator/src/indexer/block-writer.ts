/** Writes a block, or reverts the newest one: rows, events, undo and cursor in one transaction, one writer at a time. */
import type { ChainBlock, ChainReceipt } from "../chain/chain-reader";
import type { Store, Tx } from "../db/open";
import type { EventDraft } from "../events/event";
import type { EventFeed } from "../events/feed";
import type {
  BlockChange,
  BlockInput,
  BlockProjection,
  BlockReversal,
  BlockRules,
  TransactionProjection,
} from "../events/projection";
import {
  finaliseTransactions,
  type MinedTransaction,
  recordMinedTogether,
  unmineTransactions,
} from "../relayer/transactions";
import { type BlockRow, newestBlock } from "./applied-blocks";
import { revertBlock } from "./reorganise";
import { forgetUndo } from "./undo";

/** Projections that follow the chain, in the order in which blocks are applied to them. */
export interface ChainProjections {
  readonly blocks: readonly BlockProjection[];
  readonly transactions: readonly TransactionProjection[];
}

/** Applies a block's facts in order. @returns the events, in order */
export function applyBlock({ facts, expired }: BlockInput, all: readonly BlockRules[]): EventDraft[] {
  const events: EventDraft[] = [];
  for (const fact of facts) for (const rules of all) rules.apply(fact, events);
  for (const id of expired) for (const rules of all) rules.expire?.(id, events);
  return events;
}

/** next: the block after the newest one. span: a later block, with no relevant log in between. */
export type WriteMode = "next" | "span";

export interface Written {
  readonly changes: readonly BlockChange[];
  readonly events: number;
  /** whether its events are staged until `publishStaged` */
  readonly isStaged: boolean;
  readonly mined: readonly MinedTransaction[];
  /** number of reopened transactions that were recorded as mined in another block of this height */
  readonly unmined: number;
}

export interface BlockWriter {
  /**
   * Writes a block.
   * @returns undefined when the newest block is not its parent: another process wrote, or the chain was reorganised
   */
  write(
    input: BlockInput,
    mode: WriteMode,
    /** receipts of its transactions that were read */
    receipts?: readonly ChainReceipt[],
  ): Promise<Written | undefined>;
  /** Publishes the events that `write` staged, unless another writer of the feed already did. */
  publishStaged(): Promise<void>;
  /**
   * Writes blocks without facts in one transaction; each is the parent of the next.
   * @returns undefined when the newest block is not the parent of the first
   */
  writeEmptyBlocks(blocks: readonly ChainBlock[]): Promise<Pick<Written, "unmined"> | undefined>;
  /** Reverts the newest block if it has this hash. */
  revertNewest(
    hash: string,
  ): Promise<
    | { readonly kind: "reverted"; readonly reversals: readonly BlockReversal[] }
    | { readonly kind: "other" }
    | { readonly kind: "too-deep" }
  >;
}

export interface BlockWriterOptions {
  readonly store: Store;
  readonly feed: EventFeed;
  readonly projections: ChainProjections;
  readonly chainId: number;
  /** how many blocks below the highest one ever written can be reverted */
  readonly undoDepth: number;
  readonly startBlock: number;
  /** number of events from which a block stages them */
  readonly stageFrom?: number;
}

/** Publishing fewer takes about ten milliseconds; one more transaction per block would cost a fast chain as much. */
const STAGE_FROM = 300;

const KEEP_BLOCKS = 10_000;

const PRUNE_EVERY = 1_000;

const isOn = (below: BlockRow, block: ChainBlock): boolean =>
  below.number === block.number - 1 && below.hash === block.parentHash;

export function createBlockWriter(options: BlockWriterOptions): BlockWriter {
  const { store, feed, projections, chainId, undoDepth, startBlock, stageFrom = STAGE_FROM } = options;

  /**
   * Locks the cursor. Other writers wait here, and then find the block written.
   * @returns the highest block ever written
   */
  async function lockCursor(tx: Tx): Promise<number> {
    const position = await feed.lock(tx);
    if (position !== undefined) return position;
    await tx
      .insertInto("cursors")
      .values({ chain_id: chainId, name: "indexer", position: startBlock - 1 })
      .onConflict((conflict) => conflict.columns(["chain_id", "name"]).doNothing())
      .execute();
    return (await feed.lock(tx)) ?? startBlock - 1;
  }

  async function finalise(tx: Tx, number: number, blocks = 1): Promise<void> {
    const final = number - undoDepth;
    const ids = await finaliseTransactions(tx, chainId, final);
    for (const projection of projections.transactions) await projection.finalised(tx, chainId, ids);
    await forgetUndo(tx, chainId, final);
    if (number % PRUNE_EVERY >= blocks) return;
    await tx
      .deleteFrom("blocks")
      .where("chain_id", "=", chainId)
      .where("number", "<", final - KEEP_BLOCKS)
      .execute();
  }

  const unmineOthers = (tx: Tx, blocks: readonly ChainBlock[]): Promise<number> =>
    unmineTransactions(tx, chainId, {
      from: blocks[0]?.number ?? 0,
      to: blocks.at(-1)?.number ?? 0,
      hashes: blocks.map(({ hash }) => hash),
    });

  async function insertBlocks(tx: Tx, blocks: readonly ChainBlock[]): Promise<void> {
    const rows = blocks.map(({ number, hash, parentHash, timestampSec }) => ({
      chain_id: chainId,
      number,
      hash,
      parent_hash: parentHash,
      timestamp: timestampSec,
    }));
    await tx.insertInto("blocks").values(rows).execute();
  }

  const moveCursor = (tx: Tx, position: number): Promise<unknown> =>
    tx.updateTable("cursors").set({ position }).where("chain_id", "=", chainId).where("name", "=", "indexer").execute();

  return {
    write: (input, mode, receipts = []) =>
      store.transaction(async (tx) => {
        const { block } = input;
        const highest = await lockCursor(tx);
        const newest = await newestBlock(tx, chainId);
        const fits = !newest || (mode === "next" ? isOn(newest, block) : newest.number < block.number);
        if (!fits) return undefined;
        const changes: BlockChange[] = [];
        for (const projection of projections.blocks) changes.push(await projection.load(tx, input));
        const events = applyBlock(input, changes);
        for (const change of changes) await change.save(tx);
        const isStaged = events.length >= stageFrom;
        if (isStaged) await feed.stage(tx, events);
        else await feed.append(tx, events);
        const mined = await recordMinedTogether(tx, chainId, receipts);
        const unmined = await unmineOthers(tx, [block]);
        await insertBlocks(tx, [block]);
        await finalise(tx, block.number);
        await moveCursor(tx, Math.max(highest, block.number));
        return { changes, events: events.length, isStaged, mined, unmined };
      }),

    publishStaged: () =>
      store.transaction(async (tx) => {
        await feed.lock(tx);
      }),

    writeEmptyBlocks: (blocks) =>
      store.transaction(async (tx) => {
        const [first] = blocks;
        const last = blocks.at(-1);
        if (!first || !last) return undefined;
        const highest = await lockCursor(tx);
        const newest = await newestBlock(tx, chainId);
        if (newest && !isOn(newest, first)) return undefined;
        const unmined = await unmineOthers(tx, blocks);
        await insertBlocks(tx, blocks);
        await finalise(tx, last.number, blocks.length);
        await moveCursor(tx, Math.max(highest, last.number));
        return { unmined };
      }),

    revertNewest: (hash) =>
      store.transaction(async (tx) => {
        const highest = await lockCursor(tx);
        const newest = await newestBlock(tx, chainId);
        if (newest?.hash !== hash) return { kind: "other" };
        // The undo rows below are deleted: stopping is safer than guessing.
        if (newest.number <= highest - undoDepth) return { kind: "too-deep" };
        const reversals = await revertBlock(tx, { chainId, feed, projections: projections.blocks }, newest);
        return { kind: "reverted", reversals };
      }),
  };
}
