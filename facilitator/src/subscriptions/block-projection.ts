/** Projects the chain onto the rows of plans, subscriptions, allowances and debits. */
import type { ChainFact } from "../chain/facts";
import type { Tx } from "../db/open";
import type { BlockChange, BlockInput, BlockProjection, BlockReversal, RevertedBlock } from "../events/projection";
import { loadState, revertState, saveState } from "./block-rows";
import { turnpikeRules } from "./projection";
import type { RecordProjection } from "./rows";

export class SubscriptionProjection implements BlockProjection {
  readonly #chainId: number;
  readonly #records: readonly RecordProjection[];

  /** @param records projections of the subscriptions; the first is nearest to their rows */
  constructor(chainId: number, records: readonly RecordProjection[]) {
    this.#chainId = chainId;
    this.#records = records;
  }

  async concerning(facts: readonly ChainFact[]): Promise<readonly ChainFact[]> {
    return facts.filter((fact) => fact.kind === "turnpike");
  }

  async load(tx: Tx, input: BlockInput): Promise<BlockChange> {
    const state = await loadState(tx, this.#chainId, input.facts);
    const place = { chainId: this.#chainId, blockNumber: input.block.number };
    return { ...turnpikeRules(input, state), save: (same) => saveState(same, place, state, this.#records) };
  }

  async revert(tx: Tx, block: RevertedBlock): Promise<BlockReversal> {
    await revertState(tx, { chainId: this.#chainId, blockNumber: block.number }, this.#records);
    return { events: [] };
  }
}
