// Measures the cost of renewals. Prints one JSON line per figure. It measures:
// - the claim of a due row among 10 thousand, 100 thousand and a million subscriptions, with an old snapshot open
// - a live run on anvil with two runners of which one is killed
// Run: npm run bench:renewals [-- --quick --only=due,live]
import { parseArgs } from "node:util";
import { type DueReport, measureDue } from "./renewals/due";
import { measureLive } from "./renewals/live";
import { findAnvil } from "./settle/chain";

const { values: args } = parseArgs({
  options: { quick: { type: "boolean", default: false }, only: { type: "string", default: "due,live" } },
});
const only = new Set(args.only.split(","));
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const figure = (name: string, value: number, goal: number | null = null, digits = 2): void =>
  say(JSON.stringify({ figure: name, value: Number(value.toFixed(digits)), goal }));

interface Postgres {
  readonly url: string;
  stop(): Promise<void>;
}
const tools: {
  startPostgres(options?: { durable?: boolean }): Promise<Postgres>;
} = require("../facilitator/tools/postgres.cjs");

async function due(serverUrl: string): Promise<void> {
  const sizes = args.quick ? [10_000, 100_000] : [10_000, 100_000, 1_000_000];
  const reports: DueReport[] = [];
  for (const subscriptions of sizes) {
    const ask = { serverUrl, subscriptions, due: 2_000, rounds: 4, batch: 200, withOldSnapshot: true };
    const report = await measureDue(ask);
    reports.push(report);
    say(
      `${subscriptions} subscriptions, ${report.claimed} due: ${report.perItemUs.toFixed(1)} us per due item, of which the claim ${report.claimUs.toFixed(1)} us; ${report.cpuUs.toFixed(1)} us of the database's CPU (old snapshot open)`,
    );
  }
  const [smallest] = reports;
  const largest = reports.at(-1);
  if (!smallest || !largest) return;
  figure("renewals_claim_us_per_item", largest.claimUs, null, 1);
  figure("renewals_due_us_per_item", largest.perItemUs, null, 1);
  figure("renewals_due_cpu_us_per_item", largest.cpuUs, null, 1);
  figure(
    `renewals_due_cost_ratio_${largest.subscriptions}_to_${smallest.subscriptions}`,
    largest.perItemUs / smallest.perItemUs,
    2,
  );
  figure(
    `renewals_due_cpu_ratio_${largest.subscriptions}_to_${smallest.subscriptions}`,
    largest.cpuUs / smallest.cpuUs,
    2,
  );
}

async function live(serverUrl: string): Promise<void> {
  const anvil = findAnvil();
  if (!anvil) return say("no anvil for this platform: the live run is left out");
  const report = await measureLive({ serverUrl, anvil, subscriptions: args.quick ? 1_000 : 10_000, say });
  say(JSON.stringify({ live: report }));
  figure("renewals_live_collected", report.renewed, report.expected, 0);
  figure("renewals_live_charged_twice", report.doubled, 0, 0);
  figure("renewals_live_failures_reported", report.failuresReported, report.failing, 0);
  figure("renewals_live_per_second", report.perSecond, null, 0);
  figure("renewals_live_gas_per_renewal", report.gasPerRenewal, null, 0);
}

async function main(): Promise<void> {
  const postgres = await tools.startPostgres({ durable: true });
  try {
    if (only.has("due")) await due(postgres.url);
    if (only.has("live")) await live(postgres.url);
  } finally {
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
