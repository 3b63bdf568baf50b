/** Finds the block in which a time on the command line begins. */
import { ConfigError, Unavailable } from "turnpike/protocol";
import type { ChainReader } from "../../../chain/chain-reader";
import { DAY_SEC, HOUR_SEC } from "../../../lib/durations";

const UNIT_SEC: Readonly<Record<string, number>> = { s: 1, m: 60, h: HOUR_SEC, d: DAY_SEC };

/**
 * @param text a time such as 2026-01-31T00:00:00Z, or a duration before `nowSec` such as 24h
 * @param nowSec by the chain's clock
 * @throws ConfigError
 */
export function sinceSecOf(text: string, nowSec: number): number {
  const [, count, unit = ""] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (count !== undefined) return nowSec - Number(count) * (UNIT_SEC[unit] ?? 1);
  const isTime = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2})?Z)?$/.test(text);
  const ms = isTime ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(ms))
    throw new ConfigError(
      `--since is ${JSON.stringify(text)}: use a UTC time such as 2026-01-31T00:00:00Z or a duration such as 24h, 90m or 7d`,
    );
  return Math.floor(ms / 1_000);
}

/** Returns the first block of a range whose time is at least `sinceSec`; the block after the range when none is. */
export async function firstBlockSince(
  chain: Pick<ChainReader, "block">,
  { fromBlock, toBlock }: { readonly fromBlock: number; readonly toBlock: number },
  sinceSec: number,
): Promise<number> {
  let [low, high] = [fromBlock, toBlock + 1];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const block = await chain.block(middle);
    if (!block) throw new Unavailable(`a node does not return block ${middle}`);
    if (block.timestampSec < sinceSec) low = middle + 1;
    else high = middle;
  }
  return low;
}
