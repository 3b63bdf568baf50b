/** Puts the rooms below HTTP together in the order in which they need each other, and stops them in the reverse. */
import type { Logger } from "pino";
import type { FacilitatorConfig } from "./config";
import { type Indexer, startIndexer } from "./indexer";
import { type Payments, startPayments } from "./payments";
import { noProgress, type Progress, readingBar } from "./progress";
import { type Relayer, startRelayer } from "./relayer";
import type { OnStep } from "./steps";
import { openStore, type Store } from "./store/open";
import { type SharedClock, startSharedClock } from "./store/shared-clock";

export interface Core {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly relayer: Relayer;
  readonly indexer: Indexer;
  readonly payments: Payments;
  /** wall time that all processes on the database agree on */
  readonly wallClock: Pick<SharedClock, "nowMs">;
  stop(): Promise<void>;
}

export interface CoreEffects {
  readonly log: Logger;
  /** to the chain's nodes */
  readonly fetch?: typeof fetch;
  readonly onStep?: OnStep;
  /** of the first reading of the chain */
  readonly progress?: Progress;
}

export async function startCore(config: FacilitatorConfig, effects: CoreEffects): Promise<Core> {
  const { log, fetch, onStep = () => undefined, progress = noProgress } = effects;
  const store = await openStore(config.database);
  const started: { stop(): Promise<void> }[] = [{ stop: () => store.close() }];
  const stop = async (): Promise<void> => {
    for (const room of started.reverse().splice(0)) await room.stop();
  };
  try {
    const wallClock = await startSharedClock({
      store,
      monotonicMs: () => performance.now(),
      onMiss: () => log.warn("the database's clock cannot be read: it is away"),
    });
    started.push({ stop: async () => wallClock.stop() });
    const relayer = await startRelayer({ config, store, log, onStep, ...(fetch && { fetch }) });
    started.push(relayer);
    const reading = readingBar(progress, config.startBlock);
    const indexer = await startIndexer({
      ...{ config, store, chain: relayer.chain, isOurs: relayer.hasSent, log, onStep },
      onProgress: reading.tell,
    });
    started.push(indexer);
    await indexer.catchUp().finally(reading.end);
    const payments = startPayments({ config, store, relayer, indexer, log, onStep });
    started.push(payments);
    return { config, store, relayer, indexer, payments, wallClock, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
