import pino from "pino";
import { createEventFeed, createProjections } from "../../../facilitator/src/app/projections";
import type { Store } from "../../../facilitator/src/db/open";
import { type BlockWriter, createBlockWriter } from "../../../facilitator/src/indexer/block-writer";

/** The writer of another process on the same database. */
export function blockWriterOf(store: Store, chainId: number): BlockWriter {
  const projections = createProjections({ store, chainId, log: pino({ level: "silent" }), onStep: () => undefined });
  return createBlockWriter({
    store,
    feed: createEventFeed(chainId),
    projections,
    chainId,
    undoDepth: 128,
    startBlock: 0,
  });
}
