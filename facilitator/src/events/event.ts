import { type Hex, keccakText } from "turnpike/protocol";

/** Returns the event id of a log: the same log in the same block always has the same id. */
export function chainEventId(chainId: number, blockHash: string, logIndex: number, type: string): Hex {
  return keccakText(`${chainId}/${blockHash}/${logIndex}/${type}`);
}

export interface EventDraft {
  readonly id: string;
  readonly chainId: number;
  readonly type: string;
  readonly objectId: string;
  readonly provider?: string | undefined;
  readonly payer?: string | undefined;
  /** the object's full state, JSON-safe */
  readonly payload: Readonly<Record<string, unknown>>;
  readonly blockTime: number;
  readonly blockNumber?: number;
  readonly blockHash?: string;
  readonly logIndex?: number;
  readonly transaction?: string | undefined;
}
