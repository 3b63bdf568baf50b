/** Walks a range of blocks in steps: longer ones while little is in them, shorter ones where it is too much at once. */
import { isTurnpikeError, Unavailable } from "turnpike/protocol";
import type { BlockRange } from "./job";

const FIRST_SPAN = 16;

const MAX_SPAN = 2_000;

/** Logs and rows of a step, after which steps become shorter. */
export const MANY = 5_000;

/** @returns "too wide" where a node rejects what was asked for */
export async function orTooWide<T>(reading: Promise<T>): Promise<T | "too wide"> {
  try {
    return await reading;
  } catch (error) {
    if (isTurnpikeError(error)) throw error;
    return "too wide";
  }
}

/**
 * @param read what a step has; its size in logs and rows
 * @throws Unavailable when one block is too wide
 */
export async function* inSteps<T extends { readonly size: number }>(
  range: BlockRange,
  read: (step: BlockRange) => Promise<T | "too wide">,
): AsyncGenerator<T & BlockRange> {
  let span = FIRST_SPAN;
  for (let fromBlock = range.fromBlock; fromBlock <= range.toBlock; ) {
    const step = { fromBlock, toBlock: Math.min(fromBlock + span - 1, range.toBlock) };
    const found = await read(step);
    if (found === "too wide") {
      if (step.fromBlock === step.toBlock) throw new Unavailable(`a node rejects log queries for block ${fromBlock}`);
      span = Math.ceil((step.toBlock - step.fromBlock + 1) / 4);
      continue;
    }
    yield { ...found, ...step };
    fromBlock = step.toBlock + 1;
    if (found.size > MANY) span = Math.max(1, Math.floor(span / 2));
    else if (found.size < MANY / 3) span = Math.min(MAX_SPAN, span * 2);
  }
}
