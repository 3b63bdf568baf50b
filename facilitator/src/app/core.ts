/** Starts the parts below HTTP in dependency order, and stops them in reverse order. */
import type { Logger } from "pino";
import type { FacilitatorConfig } from "../config";
import { bindChainContracts, requireChainContracts } from "../db/chain-contracts";
import type { Superseded } from "../db/health";
import type { Store } from "../db/open";
import { untilDatabaseAnswers } from "../db/patience";
import type { EventFeed } from "../events/feed";
import { type Indexer, startIndexer } from "../indexer";
import { chainMismatch, MISMATCH_REMEDY } from "../indexer/same-chain";
import { noProgress, type Progress, readingBar } from "../lib/progress";
import { type Payments, startPayments } from "../payments";
import { PaymentStages, paymentsOfTransaction } from "../payments/stages";
import { type Relayer, startRelayer } from "../relayer";
import type { FirstBroadcastListener } from "../relayer/broadcasts";
import { createCollectionReader } from "../subscriptions/collections";
import type { Failpoint } from "../telemetry/failpoints";
import type { Metrics } from "../telemetry/metrics";
import type { Tracing } from "../telemetry/tracing";
import { type Database, openDatabase } from "./database";
import { createEventFeed, createProjections } from "./projections";

export interface Core {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly feed: EventFeed;
  readonly relayer: Relayer;
  readonly indexer: Indexer;
  readonly payments: Payments;
  readonly database: Database["health"];
  readonly wallClock: Database["wallClock"];
  /** Aborts requests to nodes: from now on each one throws `Unavailable`. Stored transactions stay stored. */
  endNodes(): void;
  stop(): Promise<void>;
}

export interface CoreEffects {
  readonly log: Logger;
  /** one that other chains use too, and that this core leaves open; absent: the core opens its own */
  readonly database?: Database;
  /** absent: nothing is counted */
  readonly metrics?: Metrics;
  /** absent: nothing is traced */
  readonly tracing?: Tracing | undefined;
  readonly fetch?: typeof fetch;
  readonly onStep?: Failpoint;
  readonly progress?: Progress;
  readonly signal?: AbortSignal | undefined;
  readonly onSuperseded?: Superseded;
  /** receives what the start is doing, in one sentence */
  readonly onStage?: (stage: string) => void;
}

const monotonicMs = (): number => performance.now();

/** How long a stop waits for requests to nodes: a healthy node needs far less. */
export const NODES_DRAIN_MS = 3_000;

/** When the database is unreachable, or becomes so during the start, the start waits for it and begins again. */
export function startCore(config: FacilitatorConfig, effects: CoreEffects): Promise<Core> {
  const { log, signal, onStage } = effects;
  return untilDatabaseAnswers(() => startOnce(config, effects), {
    log,
    signal,
    monotonicMs,
    ...(onStage && { onWait: onStage }),
  });
}

async function startOnce(config: FacilitatorConfig, effects: CoreEffects): Promise<Core> {
  const {
    log,
    metrics,
    tracing,
    fetch,
    signal,
    onStep = () => undefined,
    progress = noProgress,
    onStage = () => undefined,
  } = effects;
  const started: { readonly name: string; stop(): Promise<void> }[] = [];
  const begun = <T extends { stop(): Promise<void> }>(name: string, part: T): T => {
    started.push({ name, stop: () => part.stop() });
    return part;
  };
  const nodes = new AbortController();
  const endNodes = (): void => nodes.abort();
  /** Stops each part even when another one fails to stop, so that none keeps running. */
  const stop = async (): Promise<void> => {
    const cut = setTimeout(endNodes, NODES_DRAIN_MS);
    for (const { name, stop: end } of started.reverse().splice(0)) {
      await end().catch((error: unknown) => log.warn({ part: name, error }, "a part did not stop cleanly"));
    }
    clearTimeout(cut);
  };
  // Nobody waits for a response during the start.
  signal?.addEventListener("abort", endNodes, { once: true });
  try {
    onStage("opening the database");
    // Stopped last: every other part may write while it stops.
    const database = effects.database ?? begun("database", await openDatabase(config, log, effects.onSuperseded));
    const { store, wallClock } = database;
    // Before any lane of the database is run.
    await requireChainContracts(store.db, config);
    signal?.throwIfAborted();
    const stages = new PaymentStages({ log, metrics, tracing, nowMs: wallClock.nowMs });
    const onFirstBroadcast: FirstBroadcastListener = (form, answered) => {
      paymentsOfTransaction(store, config.chainId, form)
        .then(async (payments) => {
          stages.broadcast(payments, form);
          const tookMs = await answered;
          if (tookMs !== undefined) stages.submitted(payments, form, tookMs);
        })
        .catch((error: unknown) => log.debug({ transaction: form.hash, error }, "payments sent could not be read"));
    };
    onStage("checking chain and contracts");
    const relayer = begun(
      "relayer",
      await startRelayer({
        config,
        store,
        log,
        metrics,
        onStep,
        onFirstBroadcast,
        signal: nodes.signal,
        ...(fetch && { fetch }),
      }),
    );
    await bindChainContracts(store.db, config);
    const mismatch = await chainMismatch({ db: store.db, chain: relayer.chain, chainId: config.chainId });
    if (mismatch) log.warn({ remedy: MISMATCH_REMEDY }, mismatch.detail);
    signal?.throwIfAborted();
    onStage("reading the chain");
    const feed = createEventFeed(config.chainId);
    const projections = createProjections({ store, chainId: config.chainId, log, onStep, stages });
    const reading = readingBar(progress, config.startBlock);
    const indexer = begun(
      "indexer",
      await startIndexer({
        config,
        store,
        feed,
        projections,
        chain: relayer.chain,
        isOurs: relayer.hasSent,
        log,
        metrics,
        onStep,
        onProgress(place) {
          reading.update(place);
          onStage(`reading the chain: block ${place.applied} of ${place.target}`);
        },
      }),
    );
    await unlessAborted(indexer.catchUp(), signal).finally(reading.end);
    const payments = begun(
      "payments",
      startPayments({
        config,
        store,
        feed,
        projection: projections.payments,
        relayer,
        indexer,
        stages,
        log,
        onStep,
        collections: createCollectionReader(store.db, config),
      }),
    );
    return { config, store, feed, relayer, indexer, payments, database: database.health, wallClock, endNodes, stop };
  } catch (error) {
    await stop();
    signal?.throwIfAborted();
    throw error;
  } finally {
    signal?.removeEventListener("abort", endNodes);
  }
}

/** @throws the signal's reason as soon as it is aborted; the work continues until its part is stopped */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
