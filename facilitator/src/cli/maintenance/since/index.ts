/** Compares what settled since a time, or since the last run: the blocks from there to the newest final one. */
import { setTimeout as sleep } from "node:timers/promises";
import { Unavailable } from "turnpike/protocol";
import { countStaged } from "../../../events/feed";
import { type BlockRow, newestBlock } from "../../../indexer/applied-blocks";
import type { Progress } from "../../../lib/progress";
import { readCursorFile, writeCursorFile } from "./cursor-file";
import type { BlockRange, SinceJob } from "./job";
import { type Missing, sumsOf } from "./missing";
import { compareSettled } from "./settled";
import { firstBlockSince, sinceSecOf } from "./time";

export interface SinceOptions {
  /** a UTC time, or a duration before the newest final block */
  readonly since: string;
  readonly cursor?: string | undefined;
}

export interface SinceRun extends SinceJob {
  readonly options: SinceOptions;
  readonly progress: Progress;
  readonly say: (line: string) => void;
}

export interface SinceOutcome {
  readonly range: BlockRange;
  readonly payments: number;
  /** Runs before this one that did not end count too. */
  readonly differences: number;
}

/**
 * Says each difference as soon as it is found.
 * @returns undefined when no block has been read yet
 * @throws Unavailable when no node answers; what was compared by then is in the cursor's file
 */
export async function reconcileSince(run: SinceRun): Promise<SinceOutcome | undefined> {
  const { store, config, options, say } = run;
  const newest = await newestBlock(store.db, config.chainId);
  if (!newest) return undefined;
  const final = (await finalBlock(run, newest)) ?? { number: config.startBlock - 1, timestamp: newest.timestamp };
  const kept = options.cursor === undefined ? undefined : readCursorFile(options.cursor, config.chainId);
  const all = { fromBlock: config.startBlock, toBlock: final.number };
  // Also when a cursor decides: a wrong argument is refused at any time.
  const sinceSec = sinceSecOf(options.since, final.timestamp);
  const fromBlock = kept ? kept.comparedBlock + 1 : await firstBlockSince(run.chain, all, sinceSec);
  const range = { fromBlock, toBlock: final.number };
  await untilPublished(run);
  const bar = run.progress.begin("blocks", Math.max(0, range.toBlock - range.fromBlock + 1));
  let [payments, differences] = [0, kept?.differences ?? 0];
  const missing: Missing[] = [];
  try {
    for await (const step of compareSettled(run, range)) {
      for (const wrong of step.wrong) say(`difference: ${wrong}`);
      payments += step.payments;
      differences += step.wrong.length;
      missing.push(...step.missing);
      bar.advance(step.toBlock - step.fromBlock + 1);
      keep(run, step.toBlock, differences);
    }
  } finally {
    bar.end();
  }
  for (const sum of sumsOf(missing)) say(sum);
  keep(run, Math.max(range.toBlock, fromBlock - 1), 0);
  return { range, payments, differences };
}

function keep({ config, options }: SinceRun, comparedBlock: number, differences: number): void {
  if (options.cursor !== undefined && comparedBlock >= 0)
    writeCursorFile(options.cursor, { chainId: config.chainId, comparedBlock, differences });
}

/** Returns the newest block that counts as final. @throws Unavailable when it is not the node's */
async function finalBlock({ store, config, chain }: SinceRun, newest: BlockRow): Promise<BlockRow | undefined> {
  const final = await newestBlock(store.db, config.chainId, newest.number - config.finalityDepth);
  if (!final || final.number < config.startBlock) return undefined;
  const onChain = await chain.block(final.number);
  if (onChain?.hash !== final.hash)
    throw new Unavailable(
      `block ${final.number} is final and is ${final.hash} here and ${onChain?.hash ?? "absent"} at the node; run \`reconcile\` without --since`,
    );
  return final;
}

const LOOKS = 20;

const NEXT_LOOK_MS = 250;

/** A block's events are published after its rows. Once nothing is staged, those of the final blocks are published. */
async function untilPublished({ store, config }: SinceRun): Promise<void> {
  for (let look = 1; (await countStaged(store.db, config.chainId)) > 0; look += 1) {
    if (look === LOOKS)
      throw new Unavailable("events are stored and not published yet; start a Facilitator, which publishes them first");
    await sleep(NEXT_LOOK_MS);
  }
}
