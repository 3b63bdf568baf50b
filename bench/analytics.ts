// Measures the queries of a provider's page and of the operator's page on ten million payments of a year. They have 500
// providers, 2,000 plans and 1 million payers, distributed by Zipf. It measures:
// - PostgreSQL warm, and cold after a restart on files that the kernel has dropped from its cache
// - the embedded database with a million payments
// - how fast the service's own path stores events, including the sums
// Prints a table and one JSON line per figure. Needs about 25 GB of disk and, on two cores, half an hour for the rows.
// Run: npm run bench:analytics [-- --payments=10000000 --only=postgres,pglite,ingest --keep=FOLDER --questions=WORDS]

import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { sql } from "kysely";
import { Secret } from "../facilitator/src/config/setting";
import { connectStore, openStore, type Store } from "../facilitator/src/db/open";
import { fill } from "./analytics/fill";
import { ingest } from "./analytics/ingest";
import { type Opened, type Timing, timeCold, timeWarm, type Wanted } from "./analytics/measure";
import { bytesOf, forgetPages, removeFolder, startServer } from "./analytics/postgres";

const { values: args } = parseArgs({
  options: {
    payments: { type: "string", default: "10000000" },
    only: { type: "string", default: "postgres,pglite,ingest" },
    /** folder of the rows, which are migrated to this release and reused */
    keep: { type: "string" },
    /** only those whose page and name contain one of these words, separated by commas */
    questions: { type: "string", default: "" },
    rounds: { type: "string", default: "20" },
    "cold-rounds": { type: "string", default: "5" },
  },
});
const payments = Number(args.payments);
const only = new Set(args.only.split(","));
const words = args.questions.split(",");
const isWanted: Wanted = ({ page, name }) => words.some((word) => `${page}: ${name}`.includes(word));
const rounds = { warm: Number(args.rounds), cold: Number(args["cold-rounds"]) };
const PAYMENTS_PER_PAYER = 10;
const GOAL_MS = 200;
const EMBEDDED_SHARE = 10;

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const report = (line: string): void => {
  if (process.stdout.isTTY) process.stdout.write(`\r\u001b[K${line}`);
  else say(line);
};
const figures: { figure: string; value: number; goal: number | null }[] = [];

function record(where: string, timings: readonly Timing[]): void {
  say("");
  for (const { page, question, samples, p50Ms, p95Ms } of timings) {
    const isSlow = p95Ms > GOAL_MS ? "  over the goal" : "";
    say(
      `${where.padEnd(16)} ${page.padEnd(9)} ${question.padEnd(32)} p50 ${p50Ms} ms, p95 ${p95Ms} ms of ${samples}${isSlow}`,
    );
    figures.push({ figure: `${where}, ${page}: ${question}, p95 ms`, value: p95Ms, goal: GOAL_MS });
  }
}

async function onPostgres(): Promise<void> {
  const folder = folderFor("postgres");
  const open = async (): Promise<Opened> => {
    const server = await startServer(folder);
    const store = await connectStore({ kind: "postgres", url: new Secret(server.url), poolSize: 5 });
    return { store, close: () => store.close().then(() => server.stop()) };
  };
  try {
    const isThere = existsSync(path.join(folder, "data"));
    const server = await startServer(folder);
    // Opening a kept database migrates it to this release.
    const store = await openStore({ kind: "postgres", url: new Secret(server.url), poolSize: 5 });
    if (!isThere) await fillIt(store, payments, folder);
    else if (store.migrated.length > 0) await sql`vacuum analyze`.execute(store.db);
    await store.close();
    await server.stop();
    await time("postgres", folder, open);
  } finally {
    if (!args.keep) removeFolder(folder);
  }
}

async function onPglite(): Promise<void> {
  const folder = folderFor("pglite");
  const database = { kind: "pglite" as const, dir: path.join(folder, "db"), lockMs: 10_000 };
  const open = async (): Promise<Opened> => {
    const store = await connectStore(database);
    return { store, close: () => store.close() };
  };
  try {
    const isThere = existsSync(database.dir);
    const store = await openStore(database);
    if (!isThere) await fillIt(store, payments / EMBEDDED_SHARE, folder);
    else if (store.migrated.length > 0) await sql`vacuum analyze`.execute(store.db);
    await store.close();
    await time("embedded", folder, open);
  } finally {
    if (!args.keep) removeFolder(folder);
  }
}

const folderFor = (name: string): string =>
  args.keep ? path.join(args.keep, name) : mkdtempSync(path.join(tmpdir(), "turnpike-bench-analytics-"));

async function fillIt(store: Store, count: number, folder: string): Promise<void> {
  const startedMs = performance.now();
  await fill(store, { payments: count, payers: count / PAYMENTS_PER_PAYER }, (done) => report(`filling: ${done}`));
  const seconds = Math.round((performance.now() - startedMs) / 1_000);
  say(`\n${count} payments, ${(bytesOf(folder) / 1e9).toFixed(1)} GB, filled in ${seconds} s`);
}

async function time(where: string, folder: string, open: () => Promise<Opened>): Promise<void> {
  if (rounds.warm > 0) {
    const { store, close } = await open();
    record(`${where}, warm`, await timeWarm(store, rounds.warm, isWanted));
    await close();
  }
  const openCold = (): Promise<Opened> => {
    forgetPages(folder);
    return open();
  };
  record(`${where}, cold`, await timeCold(openCold, rounds.cold, isWanted, (done) => report(`cold: ${done}`)));
}

async function intake(): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-bench-analytics-"));
  try {
    const server = await startServer(folder);
    const store = await openStore({ kind: "postgres", url: new Secret(server.url), poolSize: 2 });
    const { events, seconds } = await ingest(store);
    await store.close();
    await server.stop();
    const perSec = Math.round(events / seconds);
    say(
      `\ningest: ${events} payments in blocks of 250, with events and sums, in ${seconds.toFixed(1)} s: ${perSec} a second`,
    );
    figures.push({ figure: "ingest, payments a second", value: perSec, goal: null });
  } finally {
    removeFolder(folder);
  }
}

async function main(): Promise<void> {
  if (only.has("ingest")) await intake();
  if (only.has("postgres")) await onPostgres();
  if (only.has("pglite")) await onPglite();
  for (const figure of figures) say(JSON.stringify(figure));
}

main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  process.exitCode = 1;
});
