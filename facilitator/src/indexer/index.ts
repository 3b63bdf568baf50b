/**
 * Reads the chain, block after block, into rows: one transaction per block, so that rows, events and cursor never
 * disagree. Follows the head at `confirmations` depth; a block whose parent is not the one applied is taken back first.
 */
import type { Logger } from "pino";
import { type ChainClock, createChainClock, tokenInterface } from "turnpike/chain";
import { type Address, type Hex, isTurnpikeError, TurnpikeError } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import { type ChainBlock, type ChainLog, type ChainReader, repeat } from "../relayer";
import type { OnStep } from "../steps";
import type { Store, Tx } from "../store/open";
import { blockAt, newestBlock } from "../store/tables/blocks";
import { appendEvents } from "../store/tables/events";
import { finaliseTransactions, unmineTransactions } from "../store/tables/transactions";
import { applyBlock } from "./apply-block";
import { forgetUndo, loadState, saveState } from "./block-store";
import { factsOf, KNOWN_TOPICS, TURNPIKE_TOPICS } from "./facts";
import { takeBack } from "./reorganise";

export interface IndexerHealth {
  readonly ok: boolean;
  /** last applied block */
  readonly applied: number;
  readonly head: number | undefined;
  /** seconds since the chain was last read */
  readonly silentSec: number;
}

export interface Indexer {
  /** chain time: the newest head's timestamp and the monotonic time since; throws Unavailable before the first head */
  readonly clock: ChainClock;
  head(): ChainBlock | undefined;
  /** number of the last applied block; -1 before the first */
  applied(): number;
  /** Reads to the head as it is now. @throws Unavailable */
  catchUp(): Promise<void>;
  /** @returns whether the block is applied, at the latest when the time is up */
  waitApplied(blockNumber: number, timeoutMs: number): Promise<boolean>;
  health(): IndexerHealth;
  stop(): Promise<void>;
}

export interface IndexerOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly chain: ChainReader;
  readonly log: Logger;
  readonly onStep: OnStep;
  readonly monotonicMs?: () => number;
}

interface ReadBlock {
  readonly block: ChainBlock;
  readonly logs: readonly ChainLog[];
}

const READ_AHEAD = 16;
/** Blocks that can be taken back, whatever is held to be final. */
const MIN_UNDO_DEPTH = 128;
/** Blocks asked for at once where nothing can be reorganised and no payment waits. */
const SPAN = 500;
const PROGRESS_EVERY = 1_000;
const SILENT_AFTER_SEC = 60;
/** final blocks whose headers are kept, for people who look */
const KEEP_BLOCKS = 10_000;

export async function startIndexer(options: IndexerOptions): Promise<Indexer> {
  const { config, store, chain, log, onStep } = options;
  const { chainId } = config;
  const monotonicMs = options.monotonicMs ?? (() => performance.now());
  const clock = createChainClock({ monotonicMs });
  const sources = { chainId, turnpike: config.turnpike, tokens: config.tokens.map((token) => token.address) };
  const filter = { addresses: [config.turnpike, ...sources.tokens], topics: [KNOWN_TOPICS] };
  const undoDepth = Math.max(config.finalityDepth, MIN_UNDO_DEPTH);
  let isTooDeep = false;
  let isSpanAllowed = true;
  let head: ChainBlock | undefined;
  let applied = (await newestBlock(store.db, chainId))?.number ?? config.startBlock - 1;
  let lastReadMs = monotonicMs();
  let running: Promise<void> | undefined;

  async function readBlock(number: number): Promise<ReadBlock | undefined> {
    const block = await chain.block(number);
    return block && { block, logs: await chain.logsOfBlock(block.hash, filter) };
  }

  async function round(): Promise<void> {
    const newest = await chain.head();
    head = newest;
    lastReadMs = monotonicMs();
    clock.observe({ number: newest.number, timestampSec: newest.timestampSec });
    const target = newest.number - (config.confirmations - 1);
    await returnToChain(newest);
    while (applied < target) {
      if (await canReadSpan(target)) {
        if (!(await readSpan(applied + 1, Math.min(applied + SPAN, target - undoDepth)))) return;
        continue;
      }
      const numbers = Array.from({ length: Math.min(READ_AHEAD, target - applied) }, (_, index) => applied + 1 + index);
      for (const read of await Promise.all(numbers.map(readBlock))) {
        if (!read || read.block.number !== applied + 1) return;
        if (!(await follows(read.block))) {
          await stepBack();
          return;
        }
        await apply(read);
      }
      if (applied % PROGRESS_EVERY < READ_AHEAD && target - applied > READ_AHEAD)
        log.info({ applied, target }, "reading the chain");
    }
  }

  /** Far behind, Turnpike's logs alone matter: payments that nobody waits for are found again when somebody asks. */
  async function canReadSpan(target: number): Promise<boolean> {
    if (!isSpanAllowed || target - applied <= undoDepth * 2) return false;
    const live = await store.db
      .selectFrom("payments")
      .select("payment_id")
      .where("chain_id", "=", chainId)
      .where("state", "in", ["queued", "sent", "parked"])
      .limit(1)
      .executeTakeFirst();
    return live === undefined;
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
      const block = await chain.block(number);
      const ofBlock = byBlock.get(number) ?? [];
      if (!block || ofBlock.some((one) => one.blockHash !== block.hash)) return false;
      await apply({ block, logs: ofBlock }, "span");
    }
    log.info({ applied }, "reading the chain");
    return true;
  }

  async function follows(block: ChainBlock): Promise<boolean> {
    const parent = await blockAt(store.db, chainId, block.number - 1);
    return parent === undefined || parent.hash === block.parentHash;
  }

  /** Takes back blocks until the newest applied one is on the chain that the node tells now. */
  async function returnToChain(newest: ChainBlock): Promise<void> {
    for (;;) {
      const ours = await newestBlock(store.db, chainId);
      applied = ours?.number ?? config.startBlock - 1;
      // A node that is merely behind is waited for.
      if (!ours || ours.number > newest.number) return;
      const theirs = ours.number === newest.number ? newest : await chain.block(ours.number);
      if (!theirs || theirs.hash === ours.hash) return;
      await stepBack();
    }
  }

  async function stepBack(): Promise<void> {
    const taken = await store.transaction(async (tx) => {
      await lockCursor(tx);
      const ours = await newestBlock(tx, chainId);
      if (!ours) return undefined;
      const cursor = await lockedPosition(tx);
      // Below this the rows' former state is forgotten: a wrong guess would be worse than standing still.
      if (ours.number <= cursor - undoDepth) {
        isTooDeep = true;
        throw new TurnpikeError(
          "Internal",
          "the chain was reorganised deeper than can be taken back: start with an empty database",
        );
      }
      return { number: ours.number, hash: ours.hash, ...(await takeBack(tx, chainId, ours)) };
    });
    if (!taken) return;
    applied = taken.number - 1;
    log.warn(
      { block: taken.number, hash: taken.hash, payments: taken.paymentIds.length },
      "a block was reorganised away",
    );
    for (const id of taken.paymentIds) store.wake.notify(`payment:${id}`);
    for (const key of ["events", "payments", "lane"]) store.wake.notify(key);
  }

  /** One indexer at a time writes: others wait here and then find the block applied. */
  async function lockCursor(tx: Tx): Promise<void> {
    await tx
      .insertInto("cursors")
      .values({ chain_id: chainId, name: "indexer", position: config.startBlock - 1 })
      .onConflict((conflict) => conflict.columns(["chain_id", "name"]).doNothing())
      .execute();
    await tx
      .selectFrom("cursors")
      .selectAll()
      .where("chain_id", "=", chainId)
      .where("name", "=", "indexer")
      .forUpdate()
      .execute();
  }

  async function lockedPosition(tx: Tx): Promise<number> {
    const row = await tx
      .selectFrom("cursors")
      .select("position")
      .where("chain_id", "=", chainId)
      .where("name", "=", "indexer")
      .executeTakeFirst();
    return row?.position ?? config.startBlock - 1;
  }

  async function apply({ block, logs }: ReadBlock, mode: "next" | "span" = "next"): Promise<void> {
    const facts = factsOf(sources, logs);
    const finalNumber = block.number - config.finalityDepth;
    const expired = await findExpired(finalNumber);
    const outcome = await store.transaction(async (tx) => {
      await lockCursor(tx);
      const newest = await newestBlock(tx, chainId);
      const isNext = !newest || (mode === "next" ? newest.number === block.number - 1 : newest.number < block.number);
      if (!isNext) return undefined;
      const state = await loadState(tx, chainId, facts, expired);
      const events = applyBlock({ chainId, block, facts, expired }, state);
      await saveState(tx, chainId, block.number, state);
      await appendEvents(tx, events);
      const unmined = await unmineTransactions(tx, chainId, block.number, block.hash);
      await finaliseTransactions(tx, chainId, block.number - undoDepth);
      await forgetUndo(tx, chainId, block.number - undoDepth);
      await tx
        .insertInto("blocks")
        .values({
          chain_id: chainId,
          number: block.number,
          hash: block.hash,
          parent_hash: block.parentHash,
          timestamp: block.timestampSec,
        })
        .execute();
      if (block.number % PROGRESS_EVERY === 0) {
        await tx
          .deleteFrom("blocks")
          .where("chain_id", "=", chainId)
          .where("number", "<", block.number - undoDepth - KEEP_BLOCKS)
          .execute();
      }
      // The highest ever applied: how deep one may go back is measured from here.
      await tx
        .updateTable("cursors")
        .set((eb) => ({ position: eb.fn<number>("greatest", ["position", eb.val(block.number)]) }))
        .where("chain_id", "=", chainId)
        .where("name", "=", "indexer")
        .execute();
      return { payments: state.payments.changes().map(({ key }) => key), events: events.length, unmined };
    });
    applied = block.number;
    if (outcome) {
      if (outcome.payments.length > 0) onStep("applied");
      for (const id of outcome.payments) store.wake.notify(`payment:${id}`);
      if (outcome.events > 0) store.wake.notify("events");
      if (outcome.unmined > 0) store.wake.notify("lane");
    }
    store.wake.notify("block");
  }

  /**
   * Payments whose window ended before a final block. The chain itself is asked whether the nonce is unused: a node that
   * withheld a log must not make us say "failed" of money that moved.
   */
  async function findExpired(finalNumber: number): Promise<Hex[]> {
    const final = await blockAt(store.db, chainId, finalNumber);
    if (!final) return [];
    const rows = await store.db
      .selectFrom("payments")
      .select(["payment_id", "token", "payer", "nonce"])
      .where("chain_id", "=", chainId)
      .where("state", "in", ["queued", "sent", "parked"])
      .where("valid_before", "<=", final.timestamp)
      .limit(500)
      .execute();
    const unused = await Promise.all(
      rows.map(async (row) => {
        const data = tokenInterface.encodeFunctionData("authorizationState", [row.payer, row.nonce]) as Hex;
        const answer = await chain.call({ to: row.token as Address, data });
        const isUnused = answer.kind === "ok" && /^0x0{64}$/.test(answer.data);
        if (!isUnused)
          log.error({ paymentId: row.payment_id }, "a used authorization without a log: a node withholds something");
        return isUnused;
      }),
    );
    return rows.filter((_, index) => unused[index]).map((row) => row.payment_id as Hex);
  }

  function runOnce(): Promise<void> {
    running ??= round().finally(() => {
      running = undefined;
    });
    return running;
  }

  const loop = repeat(
    async () => {
      try {
        await runOnce();
      } catch (error) {
        const text = error instanceof Error ? error.message : "unknown";
        log[isTurnpikeError(error) ? "warn" : "error"]({ reason: text }, "reading the chain failed");
      }
    },
    () => store.wake.wait("indexer", config.pollMs),
  );

  return {
    clock,
    head: () => head,
    applied: () => applied,
    async catchUp() {
      // The round that runs may have looked at the head before what the caller waits for.
      await running?.catch(() => undefined);
      await runOnce();
    },
    async waitApplied(blockNumber, timeoutMs) {
      const untilMs = monotonicMs() + timeoutMs;
      while (applied < blockNumber && monotonicMs() < untilMs) {
        await store.wake.wait("block", Math.max(1, Math.min(500, untilMs - monotonicMs())));
      }
      return applied >= blockNumber;
    },
    health() {
      const silentSec = Math.round((monotonicMs() - lastReadMs) / 1_000);
      return {
        ok: !isTooDeep && head !== undefined && silentSec < SILENT_AFTER_SEC,
        applied,
        head: head?.number,
        silentSec,
      };
    },
    stop: () => loop.stop(),
  };
}
