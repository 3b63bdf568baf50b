import type { Reindex } from "../reindex";

export interface BlockRange {
  readonly fromBlock: number;
  /** inclusive */
  readonly toBlock: number;
}

export type SinceJob = Omit<Reindex, "untilBlock" | "progress">;
