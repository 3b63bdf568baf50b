// Measures what a steady rate of payments takes: processor, memory and disk of the Facilitator and of PostgreSQL. Each
// rate has a stage of its own: chain, RPC proxy, PostgreSQL, Facilitator and load are separate processes. Prints one JSON
// line per rate.
// Run: npm run bench:sizing [-- --rates=0,1,10,100 --seconds=60]

import { loadavg } from "node:os";
import { parseArgs } from "node:util";
import { Client } from "pg";
import { addressOfKey, type Hex } from "turnpike/protocol";
import { testKey } from "../scripts/sandbox/chain";
import { findAnvil } from "./settle/chain";
import type { GeneratorAsk, LoadReport } from "./settle/generator";
import { payerAddress } from "./settle/payloads";
import { cpuSecOf, cpuSecOfTree, type Helper, peakRssMbOf, startHelper } from "./settle/process";
import { onStage, payloadTermsOf, type Stage } from "./settle/stage";

const { values: args } = parseArgs({
  options: {
    /** payments per second; 0 is an idle service */
    rates: { type: "string", default: "0,1,10,100" },
    seconds: { type: "string", default: "60" },
  },
});
const seconds = Number(args.seconds);

const PAYERS = 500;
/** Fewer payments say little about a payment's bytes: tables and logs grow in steps. */
const ENOUGH_FOR_BYTES = 1_000;
const WARM_UP = { perSec: 20, seconds: 5 } as const;
const payTo = addressOfKey(testKey("bench payee") as Hex);
const payers = Array.from({ length: PAYERS }, (_, index) => payerAddress(index));

type Generator = Helper<GeneratorAsk, LoadReport | "signed">;

async function offer({ chain, facilitator }: Stage, generator: Generator, perSec: number, forSec: number) {
  const terms = payloadTermsOf(chain, { endpoint: "/authorize", payTo, payers: PAYERS });
  await generator.ask({ kind: "sign", terms, count: perSec * forSec });
  const report = await generator.ask({
    kind: "run",
    url: facilitator.url,
    load: { kind: "open", perSec, seconds: forSec },
  });
  if (report === "signed") throw new TypeError("the generator was not asked to sign");
  return report;
}

const idle = (forSec: number): Promise<undefined> =>
  new Promise((resolve) => setTimeout(() => resolve(undefined), forSec * 1_000));

/** Bytes of the database, and of the write-ahead log since the server's start. */
async function bytesOf(url: string): Promise<{ readonly database: number; readonly log: number }> {
  const client = new Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ database: string; log: string }>(
    "select pg_database_size(current_database()) as database, pg_current_wal_lsn() - '0/0'::pg_lsn as log",
  );
  await client.end();
  return { database: Number(rows[0]?.database), log: Number(rows[0]?.log) };
}

async function measure(stage: Stage, perSec: number): Promise<Record<string, number>> {
  const { facilitator, postgresPid = 0, databaseUrl = "" } = stage;
  const generator: Generator = startHelper("generator.ts");
  try {
    await offer(stage, generator, WARM_UP.perSec, WARM_UP.seconds);
    const before = {
      own: cpuSecOf(facilitator.pid),
      sql: cpuSecOfTree(postgresPid),
      bytes: await bytesOf(databaseUrl),
    };
    const beganMs = performance.now();
    const report = perSec > 0 ? await offer(stage, generator, perSec, seconds) : await idle(seconds);
    const tookSec = (performance.now() - beganMs) / 1_000;
    const [own, sql] = [cpuSecOf(facilitator.pid) - before.own, cpuSecOfTree(postgresPid) - before.sql];
    const bytes = await bytesOf(databaseUrl);
    const confirmed = report?.confirmed ?? 0;
    const each = (value: number, digits: number): number => Number((value / Math.max(1, confirmed)).toFixed(digits));
    return {
      perSec,
      confirmed,
      failed: report?.failed ?? 0,
      ...(report && { p50Ms: report.p50Ms, p99Ms: report.p99Ms }),
      facilitatorCores: Number((own / tookSec).toFixed(3)),
      postgresCores: Number((sql / tookSec).toFixed(3)),
      ...(report && { facilitatorCpuMs: each(own * 1_000, 2), postgresCpuMs: each(sql * 1_000, 2) }),
      facilitatorPeakMb: Math.round(peakRssMbOf(facilitator.pid)),
      ...(confirmed >= ENOUGH_FOR_BYTES && {
        databaseBytes: each(bytes.database - before.bytes.database, 0),
        logBytes: each(bytes.log - before.bytes.log, 0),
      }),
      load: Number((loadavg()[0] ?? 0).toFixed(1)),
    };
  } finally {
    await generator.stop();
  }
}

async function main(): Promise<void> {
  const anvil = findAnvil();
  if (!anvil) throw new Error("anvil is not installed for this platform: it comes with npm ci");
  for (const perSec of args.rates.split(",").map(Number)) {
    const figures = await onStage({ anvil, blocks: "each second", payers }, (stage) => measure(stage, perSec));
    process.stdout.write(`${JSON.stringify({ figure: `sizing.${perSec}`, seconds, ...figures })}\n`);
  }
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
    process.exit(1);
  },
);
