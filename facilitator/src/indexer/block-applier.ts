/**
 * Applies blocks that were read: cross-checks their logs, writes them, moves the tip and notifies. Publishes staged
 * events.
 */
import type { Logger } from "pino";
import type { Hex } from "turnpike/protocol";
import type { ChainBlock, ChainReader } from "../chain/chain-reader";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import type { BlockProjection } from "../events/projection";
import { countMined, type MiningMetrics } from "../relayer/transactions";
import type { Failpoint } from "../telemetry/failpoints";
import type { AppliedTip } from "./applied-tip";
import type { BlockWriter, WriteMode, Written } from "./block-writer";
import { type CrossCheckOptions, crossCheck } from "./cross-check";
import type { ReadBlock } from "./read-block";

export interface BlockApplierOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly chain: ChainReader;
  readonly projections: readonly BlockProjection[];
  readonly writer: BlockWriter;
  readonly tip: AppliedTip;
  readonly isOurs: (transaction: Hex) => boolean;
  readonly log: Logger;
  readonly metrics?: MiningMetrics | undefined;
  readonly onStep: Failpoint;
}

export class BlockApplier {
  readonly #options: BlockApplierOptions;
  readonly #checking: CrossCheckOptions;
  /** whether a block's events may be staged: by this process, or by one that died */
  #hasStagedEvents = true;

  constructor(options: BlockApplierOptions) {
    this.#options = options;
    const { chain, projections, isOurs } = options;
    this.#checking = { chain, projections, isOurs };
  }

  /** Applies a block. Reads the tip from the rows instead when the block does not follow the newest one. */
  async apply({ block, logs, facts, receipts: early }: ReadBlock, mode: WriteMode): Promise<void> {
    const { config, store, writer, tip } = this.#options;
    const [expired, receipts] = await Promise.all([
      this.#findExpired(block.number - config.finalityDepth),
      mode === "next" ? crossCheck(this.#checking, { block, logs, facts, receipts: early }) : [],
    ]);
    const written = await writer.write({ chainId: config.chainId, block, facts, expired }, mode, receipts);
    if (written) {
      tip.set(block);
      this.#notifyWritten(block, written);
    } else {
      await tip.read();
      tip.moved();
    }
    store.notifier.notify("block");
    this.#hasStagedEvents ||= written?.isStaged ?? false;
  }

  /**
   * Applies empty blocks in one transaction, so that a process that is behind with little CPU can catch up.
   * @returns false when the first does not follow the newest one
   */
  async applyEmpty(blocks: readonly ChainBlock[]): Promise<boolean> {
    const { store, writer, tip } = this.#options;
    const written = await writer.writeEmptyBlocks(blocks);
    if (!written) return false;
    const last = blocks.at(-1);
    if (last) tip.set(last);
    tip.moved();
    if (written.unmined > 0) store.notifier.notify("lane");
    store.notifier.notify("block");
    return true;
  }

  /** Publishes the staged events, if there may be any. */
  async publishStaged(): Promise<void> {
    if (!this.#hasStagedEvents) return;
    await this.#options.writer.publishStaged();
    this.#hasStagedEvents = false;
    this.#options.store.notifier.notify("events");
  }

  /** Makes the next `publishStaged` look for staged events. */
  expectStaged(): void {
    this.#hasStagedEvents = true;
  }

  async #findExpired(finalBlock: number): Promise<Hex[]> {
    const { chain, projections } = this.#options;
    const ids = await Promise.all(projections.map((one) => one.findExpired?.(chain, finalBlock) ?? []));
    return ids.flat();
  }

  #notifyWritten({ number }: ChainBlock, { changes, events, isStaged, mined, unmined }: Written): void {
    const { store, log, metrics, onStep } = this.#options;
    if (mined.length > 0) {
      log.info({ block: number, transactions: mined.length, events }, "transactions mined");
      onStep("mined");
      countMined(mined, metrics);
    }
    for (const change of changes) change.committed?.();
    for (const { id } of mined) store.notifier.notify(`tx:${id}`);
    if (events > 0 && !isStaged) store.notifier.notify("events");
    // Mined transactions free their slots in the lanes.
    if (mined.length + unmined > 0) store.notifier.notify("lane");
  }
}
