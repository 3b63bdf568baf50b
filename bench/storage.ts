// Measures the bytes of a payment in PostgreSQL, by table and index. A Facilitator settles some payments on a
// real chain and delivers their webhooks; their rows are then copied under other ids, through the same states. At the
// end everything that is not kept for ever is deleted.
// Prints a table and one JSON line per figure.
// Run: npm run bench:storage [-- --payments=1000000 --real=2000 --rate=100]
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { Client } from "pg";
import { addressOfKey, type Hex } from "turnpike/protocol";
import { keepCosts } from "../facilitator/src/analytics/costs";
import { eventRetention } from "../facilitator/src/app/upkeep";
import { Secret } from "../facilitator/src/config/setting";
import { connectStore, type Tx } from "../facilitator/src/db/open";
import { deleteOldEvents } from "../facilitator/src/events/retention";
import { transactionsAwaited } from "../facilitator/src/payments/ledger";
import { deleteOldTransactions } from "../facilitator/src/relayer/retention";
import { deleteOldDeliveries } from "../facilitator/src/webhooks/retention";
import { testKey } from "../scripts/sandbox/chain";
import { CHAIN_ID, findAnvil, startLoadChain } from "./settle/chain";
import { startLoadedFacilitator } from "./settle/facilitator";
import type { GeneratorAsk, LoadReport } from "./settle/generator";
import { payerAddress } from "./settle/payloads";
import { startHelper } from "./settle/process";
import { copyPayments, keepOriginals } from "./storage/copies";
import { bytesOf, type Growing, sizesOf, type TableSize, totalBytes } from "./storage/measure";

const { values: args } = parseArgs({
  options: {
    payments: { type: "string", default: "100000" },
    real: { type: "string", default: "2000" },
    rate: { type: "string", default: "100" },
  },
});
const wanted = Number(args.payments);
const real = Number(args.real);
const perSec = Number(args.rate);

const PAYERS = 500;
const AMOUNT = 1_000n;
const FUNDS = 10n ** 12n;
const GOAL_BYTES = 1_500;
/** Tables whose rows are never deleted. */
const KEPT: readonly Growing[] = ["payments", "payment_grants"];
const payTo = addressOfKey(testKey("bench payee") as Hex);
const say = (line: string): void => void process.stdout.write(`${line}\n`);

const tools: {
  startPostgres(options: { durable: boolean }): Promise<{ url: string; stop(): Promise<void> }>;
} = require("../facilitator/tools/postgres.cjs");

async function startReceiver(): Promise<{ url: string; stop(): Promise<void> }> {
  const server = createServer((request, response) => request.resume().on("end", () => response.end()));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

/** The payee's endpoint. It is written as the API writes it, because the API needs a wallet's signature. */
async function addEndpoint(client: Client, url: string): Promise<void> {
  await client.query(
    `insert into webhook_endpoints (id, chain_id, provider, url, description, status, created_at_ms, queued_after)
    values ('we_000000000000000000000000', $1, $2, $3, '', 'enabled', 0, 0)`,
    [CHAIN_ID, payTo, url],
  );
  await client.query(
    "insert into webhook_secrets (endpoint_id, secret, created_at_ms) values ('we_000000000000000000000000', $1, 0)",
    [`whsec_${Buffer.alloc(32, 7).toString("base64")}`],
  );
}

async function until(what: string, isTrue: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await isTrue()); tries++) {
    if (tries > 600) throw new TypeError(`waited a minute in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** The indexer can revert this many blocks. */
const UNDO_DEPTH = 128;

async function mine(rpcUrl: string, blocks: number): Promise<void> {
  const body = JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method: "anvil_mine",
    params: [`0x${blocks.toString(16)}`, "0x1"],
  });
  await fetch(rpcUrl, { method: "POST", headers: { "content-type": "application/json" }, body });
}

/** Settles payments through a Facilitator, until they are delivered and final. */
async function settleReal(client: Client, databaseUrl: string, anvil: string): Promise<void> {
  const stops: (() => Promise<void>)[] = [];
  try {
    const chain = await startLoadChain(anvil);
    stops.push(chain.stop);
    const payers = Array.from({ length: PAYERS }, (_, index) => payerAddress(index));
    await chain.fund(payers, FUNDS);
    const receiver = await startReceiver();
    stops.push(receiver.stop);
    await chain.mine("each second");
    const settings = { ALLOW_PRIVATE_WEBHOOKS: "true" };
    const facilitator = await startLoadedFacilitator({
      chain,
      rpcUrl: chain.rpcUrl,
      blockMs: 1_000,
      databaseUrl,
      settings,
    });
    stops.push(facilitator.stop);
    await addEndpoint(client, receiver.url);
    const generator = startHelper<GeneratorAsk, LoadReport | "signed">("generator.ts");
    stops.push(generator.stop);
    const { token, tokenName, tokenVersion, chainId, network } = chain.contracts;
    const validBefore = Math.floor(Date.now() / 1_000) + 900;
    const terms = {
      chainId,
      network,
      token,
      tokenName,
      tokenVersion,
      payTo,
      amount: AMOUNT,
      payers: PAYERS,
      validBefore,
    };
    await generator.ask({ kind: "sign", terms: { endpoint: "/settle", ...terms }, count: real });
    const load = { kind: "open", perSec, seconds: real / perSec } as const;
    const report = await generator.ask({ kind: "run", url: facilitator.url, load });
    if (report === "signed" || report.failed > 0) throw new TypeError(`payments failed: ${JSON.stringify(report)}`);
    const count = async (query: string): Promise<number> =>
      Number((await client.query<{ count: string }>(`select count(*) from ${query}`)).rows[0]?.count);
    await until("deliveries", async () => (await count("webhook_deliveries where state = 'delivered'")) >= real);
    await mine(chain.rpcUrl, UNDO_DEPTH + 1);
    await until("final transactions", async () => (await count("transactions where not is_final")) === 0);
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}

/** Deletes what retention deletes, as if its days were over. */
async function deleteOld(databaseUrl: string, archiveDir: string): Promise<void> {
  const store = await connectStore({ kind: "postgres", url: new Secret(databaseUrl), poolSize: 2 });
  const beforeMs = Date.now() + 86_400_000;
  const onDelete = (tx: Tx, ids: readonly string[]): Promise<void> => keepCosts(tx, CHAIN_ID, ids);
  const startedMs = performance.now();
  let batches = 0;
  let longestMs = 0;
  const wallClock = { nowMs: () => beforeMs };
  const events = eventRetention({ config: { chainId: CHAIN_ID, archiveDir }, store, wallClock });
  const old = { beforeSec: beforeMs / 1_000, finalBlock: Number.MAX_SAFE_INTEGER };
  for (const run of [
    () => deleteOldDeliveries(store, CHAIN_ID, beforeMs),
    () => deleteOldTransactions({ store, chainId: CHAIN_ID, awaited: transactionsAwaited, onDelete }, beforeMs),
    () => deleteOldEvents(events, old),
  ]) {
    for (let fromMs = performance.now(); (await run()) > 0; fromMs = performance.now(), batches++)
      longestMs = Math.max(longestMs, performance.now() - fromMs);
  }
  const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
  say(`deleted what is not kept in ${seconds} s, ${batches} batches, the longest ${longestMs.toFixed(0)} ms`);
  await store.close();
}

function sayTable(sizes: readonly TableSize[], payments: number): void {
  const per = (bytes: number): string => (bytes / payments).toFixed(0).padStart(8);
  say(`${"bytes per payment".padEnd(36)}   total    rows    long  rowAvg`);
  for (const size of sizes) {
    const { table, heapBytes, longBytes, rowBytes, indexBytes } = size;
    say(`${table.padEnd(36)}${per(totalBytes(size))}${per(heapBytes)}${per(longBytes)}${String(rowBytes).padStart(8)}`);
    for (const [name, bytes] of Object.entries(indexBytes)) say(`  ${name.padEnd(34)}${per(bytes)}`);
  }
}

async function main(): Promise<void> {
  const anvil = findAnvil();
  if (!anvil) throw new TypeError("anvil is not installed for this platform");
  const postgres = await tools.startPostgres({ durable: false });
  const client = new Client({ connectionString: postgres.url });
  try {
    await client.connect();
    await settleReal(client, postgres.url, anvil);
    const originals = await keepOriginals(client);
    const before = await sizesOf(client);
    say(`${originals} real payments at ${perSec}/s`);
    sayTable(before, originals);
    await copyPayments(client, originals, wanted);
    const sizes = await sizesOf(client);
    const payments = sizes.find(({ table }) => table === "payments")?.rows ?? 0;
    say(`${payments} payments`);
    sayTable(sizes, payments);
    for (const [place, { table, rowBytes }] of sizes.entries()) {
      const ofReal = before[place]?.rowBytes ?? 0;
      if (Math.abs(rowBytes - ofReal) > ofReal * 0.03)
        throw new TypeError(`${table}: a copied row takes ${rowBytes} bytes and a real one ${ofReal}`);
    }
    const archive = mkdtempSync(path.join(tmpdir(), "turnpike-archive-"));
    await deleteOld(postgres.url, archive);
    const archived = readdirSync(archive).reduce((sum, file) => sum + statSync(path.join(archive, file)).size, 0);
    rmSync(archive, { recursive: true });
    // The newest event stays, whatever its age.
    const remaining = (await sizesOf(client)).filter(({ rows }) => rows > 1).map(({ table }) => table);
    if (remaining.join() !== KEPT.join()) throw new TypeError(`after retention these have rows: ${remaining.join()}`);
    const kept = sizes.filter(({ table }) => KEPT.includes(table)).reduce((sum, size) => sum + totalBytes(size), 0);
    const pruned = await bytesOf(client, [
      "pruned_totals",
      "pruned_payers",
      "pruned_plans",
      "pruned_costs",
      "pruned_feeds",
    ]);
    const all = sizes.reduce((sum, size) => sum + totalBytes(size), 0);
    const record = (figure: string, bytes: number, goal: number | null = null): void =>
      say(JSON.stringify({ figure, value: Math.round(bytes / payments), goal }));
    for (const size of sizes) record(`storage.bytes.${size.table}`, totalBytes(size));
    record("storage.bytesPerPayment", all);
    record("storage.pruned.bytesPerPayment", pruned);
    record("storage.kept.bytesPerPayment", kept + pruned, GOAL_BYTES);
    record("storage.archive.bytesPerPayment", archived);
  } finally {
    await client.end();
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
