/** What the rules of a block are given, and how its events are named. Pure. */
import type { Hex } from "turnpike/protocol";
import { keccakOfText } from "../keccak";
import type { ChainBlock } from "../relayer";
import type { ChainFact } from "./facts";

export interface BlockInput {
  readonly chainId: number;
  readonly block: ChainBlock;
  readonly facts: readonly ChainFact[];
  /** payments whose window ended before a final block and whose nonce is unused: the chain was asked */
  readonly expired: readonly Hex[];
}

/** Of a log: the same log in the same block has the same id for ever. */
export function chainEventId(chainId: number, blockHash: string, logIndex: number, type: string): Hex {
  return keccakOfText(`${chainId}/${blockHash}/${logIndex}/${type}`);
}

/** @param times how often the payment has come back before: what is reversed again is told again */
export function reversalEventId(id: string, times: number): Hex {
  return keccakOfText(times === 0 ? `${id}/reversed` : `${id}/reversed/${times}`);
}

/** Where an event stands, by its block. */
export const whereOf = ({ chainId, block }: BlockInput) => ({
  chainId,
  blockNumber: block.number,
  blockHash: block.hash,
  blockTime: block.timestampSec,
});
