// Measures `reconcile --since` on PostgreSQL with so many settled payments, at the rate of a million a day, against a node
// in another process that has their logs. The process compares and does nothing else: its CPU time is the figure.
// Prints one JSON line per figure.
// Run: npm run bench:reconcile [-- --payments=1000000]
import { parseArgs } from "node:util";
import pino from "pino";
import { createChainReader } from "../facilitator/src/chain/chain-reader";
import { createRpc } from "../facilitator/src/chain/rpc";
import { reconcileSince, type SinceRun } from "../facilitator/src/cli/maintenance/since";
import { Secret } from "../facilitator/src/config/setting";
import { openStore, type Store } from "../facilitator/src/db/open";
import { noProgress } from "../facilitator/src/lib/progress";
import { CHAIN_ID, PAYMENTS_IN_A_BLOCK, TOKEN, TURNPIKE } from "./reconcile/payments";
import { fillDatabase } from "./reconcile/rows";
import { startHelper } from "./settle/process";

const { values: args } = parseArgs({ options: { payments: { type: "string", default: "1000000" } } });
const blocks = Math.ceil(Number(args.payments) / PAYMENTS_IN_A_BLOCK);
const payments = blocks * PAYMENTS_IN_A_BLOCK;

/** of a day of a million payments */
const GOAL_SECONDS = 120;
const MILLION = 1_000_000;
const MB = 1_048_576;

const tools: {
  startPostgres(options: { durable: boolean }): Promise<{ url: string; stop(): Promise<void> }>;
} = require("../facilitator/tools/postgres.cjs");

const say = (line: string): void => void process.stdout.write(`${line}\n`);

async function compare(store: Store, rpcUrl: string): Promise<void> {
  const log = pino({ level: "silent" });
  const rpc = createRpc({ urls: [rpcUrl], chainId: CHAIN_ID, timeoutMs: 60_000, log });
  const config = {
    chainId: CHAIN_ID,
    turnpike: TURNPIKE,
    tokens: [{ address: TOKEN }],
    startBlock: 0,
    finalityDepth: 1,
    permit2: true,
  } as unknown as SinceRun["config"];
  const cpu = process.cpuUsage();
  const startedMs = performance.now();
  const outcome = await reconcileSince({
    config,
    store,
    chain: createChainReader(rpc),
    log,
    progress: noProgress,
    say,
    options: { since: "2020-01-01" },
  });
  const seconds = (performance.now() - startedMs) / 1_000;
  const { user, system } = process.cpuUsage(cpu);
  if (outcome?.differences !== 0 || outcome.payments !== payments)
    throw new TypeError(`it compared ${outcome?.payments} payments and found ${outcome?.differences} differences`);
  const record = (figure: string, value: number, goal: number | null = null): void =>
    say(JSON.stringify({ figure, value: Number(value.toPrecision(3)), goal }));
  record("reconcile.payments", payments);
  record("reconcile.cpuMsPerPayment", (user + system) / 1_000 / payments);
  record("reconcile.secondsPerMillion", (seconds / payments) * MILLION, GOAL_SECONDS);
  record("reconcile.cpuSecondsPerMillion", ((user + system) / MILLION / payments) * MILLION, GOAL_SECONDS);
  record("reconcile.rssMb", process.memoryUsage().rss / MB);
}

async function main(): Promise<void> {
  const postgres = await tools.startPostgres({ durable: false });
  const node = startHelper<"start", string>("../reconcile/node.ts");
  const store = await openStore({ kind: "postgres", url: new Secret(postgres.url), poolSize: 4 });
  try {
    await fillDatabase(store, blocks);
    await compare(store, await node.ask("start"));
  } finally {
    await store.close();
    await node.stop();
    await postgres.stop();
  }
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
    process.exit(1);
  },
);
