/** `facilitator reconcile`: compares the database with the chain, and says what to do when they differ. */
import { setTimeout as sleep } from "node:timers/promises";
import { isTurnpikeError } from "turnpike/protocol";
import type { ChainReader } from "../chain/chain-reader";
import { openChain } from "../chain/open";
import type { FacilitatorConfig } from "../config";
import type { ChainConfigs } from "../config/chains";
import { requireChainContracts } from "../db/chain-contracts";
import { openStore, type Store } from "../db/open";
import { isDatabaseOutage } from "../db/outage";
import { keepReconciled } from "../db/reconciled";
import { countStaged } from "../events/feed";
import { newestBlock } from "../indexer/applied-blocks";
import { terminalProgress } from "../lib/progress";
import { createLog, secretsOf } from "../telemetry/log";
import { reconcile } from "./maintenance/reconcile";
import { reconcileSince, type SinceOptions } from "./maintenance/since";

const AGREE = 0;

const DIFFER = 1;

const UNCHECKED = 2;

/** How a line of a difference begins. */
const NAMED = "difference: ";

const REMEDY =
  "keep this output and a backup, stop every Facilitator on the database, run `reindex --wipe`, then `reconcile` again; what differs still is a fault to report. Payments without a row, as after a restore: see docs/operators/backup.md";

const UNREAD_REMEDY = "start a Facilitator with the role indexer and wait until /readyz is 200, then run it again";

/**
 * Treats each chain by itself, and begins each line with its name where there are several.
 * @param options absent: everything is compared
 * @returns the process's exit status: that of a difference before that of a chain that could not be checked
 */
export async function reconcileCommand(configs: ChainConfigs, options?: SinceOptions): Promise<number> {
  const [only, ...others] = configs;
  if (others.length === 0) return reconcileChain(only, options, print);
  const statuses: number[] = [];
  for (const config of configs) {
    const say: Say = (line) => print(`${config.network.name}: ${line}`);
    const status = reconcileChain(config, options, say).catch((error: unknown) => {
      // The other chains are checked all the same.
      if (!isTurnpikeError(error)) throw error;
      say(`could not be checked: ${error.message}`);
      return DIFFER;
    });
    statuses.push(await status);
  }
  return statuses.includes(DIFFER) ? DIFFER : Math.max(...statuses);
}

async function reconcileChain(
  config: FacilitatorConfig,
  options: SinceOptions | undefined,
  print: Say,
): Promise<number> {
  const named: string[] = [];
  const say: Say = (line) => {
    if (line.startsWith(NAMED)) named.push(line.slice(NAMED.length));
    print(line);
  };
  const log = createLog({ level: config.logLevel, secrets: secretsOf(config) });
  try {
    const chain = await openChain({ config, log });
    const store = await openStore(config.database);
    const sources = { config, chain, log, say };
    try {
      const compared = await (options ? compareSince(sources, store, options) : compareAll(sources, store));
      if (compared) await keepReconciled(store.db, config.chainId, { differences: compared.wrong, named });
      return conclude(compared, say);
    } finally {
      await store.close();
    }
  } catch (error) {
    if (!isTurnpikeError(error) || error.code !== "Unavailable") throw error;
    const what = isDatabaseOutage(error) ? "that the database answers" : "that a node of RPC_URLS answers";
    say(`could not be checked: ${error.message.replace(/\.$/, "")}. Remedy: see ${what}, then run it again`);
    return UNCHECKED;
  }
}

/** @param compared undefined when no data has been read that could differ */
function conclude(compared: Compared | undefined, say: Say): number {
  if (!compared) {
    say(`could not be checked: the database has read no block of this chain. Remedy: ${UNREAD_REMEDY}`);
    return UNCHECKED;
  }
  const { wrong, what } = compared;
  say(wrong === 0 ? what : `${wrong} differences. Remedy: ${REMEDY}`);
  return wrong === 0 ? AGREE : DIFFER;
}

interface Compared {
  readonly wrong: number;
  readonly what: string;
}

interface Sources {
  readonly config: FacilitatorConfig;
  readonly chain: ChainReader;
  readonly log: ReturnType<typeof createLog>;
  readonly say: Say;
}

type Say = (line: string) => void;

async function compareAll(sources: Sources, store: Store): Promise<Compared | undefined> {
  // Against another contract every row would differ, and the remedy would delete what is right.
  await requireChainContracts(store.db, sources.config);
  if (!(await newestBlock(store.db, sources.config.chainId))) return undefined;
  return { wrong: await reportDifferences(sources, store), what: "database and chain agree" };
}

async function compareSince(sources: Sources, store: Store, options: SinceOptions): Promise<Compared | undefined> {
  await requireChainContracts(store.db, sources.config);
  const outcome = await reconcileSince({ ...sources, store, options, progress: terminalProgress() });
  if (!outcome) return undefined;
  const { fromBlock, toBlock } = outcome.range;
  const what =
    fromBlock > toBlock
      ? `nothing to compare: no later block than ${toBlock} is final yet`
      : `database and chain agree on ${outcome.payments} payments in blocks ${fromBlock} to ${toBlock}`;
  return { wrong: outcome.differences, what };
}

/** A snapshot can fall between the rows of a block and its events, which a running Facilitator writes at once. */
const SNAPSHOTS = 20;

const NEXT_SNAPSHOT_MS = 250;

async function reportDifferences(sources: Sources, store: Store): Promise<number> {
  for (let taken = 1; ; taken += 1) {
    const wrong = await reportSnapshotDifferences(sources, store, taken === SNAPSHOTS);
    if (wrong !== undefined) return wrong;
    await sleep(NEXT_SNAPSHOT_MS);
  }
}

/**
 * Compares one snapshot from the first row to the last, so that a running Facilitator does not change it meanwhile.
 * @returns undefined when the snapshot is between a block's rows and its events, and it is not the last attempt
 */
function reportSnapshotDifferences(sources: Sources, store: Store, isLast: boolean): Promise<number | undefined> {
  return store.db
    .transaction()
    .setIsolationLevel("repeatable read")
    .execute(async (db) => {
      if (!isLast && (await countStaged(db, sources.config.chainId)) > 0) return undefined;
      let wrong = 0;
      for await (const difference of reconcile({ ...sources, store: { ...store, db }, progress: terminalProgress() })) {
        sources.say(`${NAMED}${difference}`);
        wrong += 1;
      }
      return wrong;
    });
}

const print: Say = (line) => void process.stdout.write(`${line}\n`);
