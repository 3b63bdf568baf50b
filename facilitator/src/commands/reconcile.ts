/** `facilitator reconcile`: compares the database with the chain, and says what to do when they differ. */
import { setTimeout as sleep } from "node:timers/promises";
import { isTurnpikeError } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import { createLog, secretsOf } from "../log";
import { terminalProgress } from "../progress";
import { reconcile } from "../rebuild/reconcile";
import { type ChainReader, openChain } from "../relayer";
import { openStore, type Store } from "../store/open";
import { countStaged } from "../store/tables/staged-events";

const AGREE = 0;
const DIFFER = 1;
/** neither is known */
const UNCHECKED = 2;

const REMEDY =
  "keep this output and a backup, stop every Facilitator on the database, run `reindex --wipe`, then `reconcile` again; what differs still is a fault to report";

/** @returns the process's exit status */
export async function reconcileCommand(config: FacilitatorConfig): Promise<number> {
  const log = createLog({ level: config.logLevel, secrets: secretsOf(config) });
  try {
    const chain = await openChain({ config, log });
    const store = await openStore(config.database);
    const wrong = await tellDifferences({ config, chain, log }, store).finally(() => store.close());
    say(wrong === 0 ? "database and chain agree" : `${wrong} differences. Remedy: ${REMEDY}`);
    return wrong === 0 ? AGREE : DIFFER;
  } catch (error) {
    if (!isTurnpikeError(error) || error.code !== "Unavailable") throw error;
    say(`could not be checked: ${error.message}. Remedy: see that a node of RPC_URLS answers, then run it again`);
    return UNCHECKED;
  }
}

interface Sources {
  readonly config: FacilitatorConfig;
  readonly chain: ChainReader;
  readonly log: ReturnType<typeof createLog>;
}

/** A snapshot can fall between the rows of a block and its events, which a Facilitator that runs tells at once. */
const SNAPSHOTS = 20;
const NEXT_SNAPSHOT_MS = 250;

async function tellDifferences(sources: Sources, store: Store): Promise<number> {
  for (let taken = 1; ; taken += 1) {
    const wrong = await tellOfSnapshot(sources, store, taken === SNAPSHOTS);
    if (wrong !== undefined) return wrong;
    await sleep(NEXT_SNAPSHOT_MS);
  }
}

/** @returns undefined when it is not the last, and between a block's rows and its events. One snapshot from the first row to the last: a Facilitator that runs meanwhile changes nothing in what is compared. */
function tellOfSnapshot(sources: Sources, store: Store, isLast: boolean): Promise<number | undefined> {
  return store.db
    .transaction()
    .setIsolationLevel("repeatable read")
    .execute(async (db) => {
      if (!isLast && (await countStaged(db, sources.config.chainId)) > 0) return undefined;
      let wrong = 0;
      for await (const difference of reconcile({ ...sources, store: { ...store, db }, progress: terminalProgress() })) {
        say(`difference: ${difference}`);
        wrong += 1;
      }
      return wrong;
    });
}

const say = (line: string): void => void process.stdout.write(`${line}\n`);
