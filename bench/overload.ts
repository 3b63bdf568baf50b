// Offers the Facilitator one, two and three times the payments that it can confirm, each on a new connection, and counts
// what becomes of them. Chain, RPC proxy, PostgreSQL, Facilitator and load are separate processes, new ones for each run,
// because the chain keeps all its blocks in memory. Prints a table and one JSON line per figure.
// Run: npm run bench:overload [-- --seconds=60 --runs=3 --levels=1,2,3 --capacity=800]

import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { addressOfKey, type Hex } from "turnpike/protocol";
import { testKey } from "../scripts/sandbox/chain";
import type { Offer, OverloadAsk, OverloadReport } from "./overload/generator";
import { findAnvil } from "./settle/chain";
import { payerAddress } from "./settle/payloads";
import { cpuSecOf, type Helper, startHelper } from "./settle/process";
import { AMOUNT, onStage, payloadTermsOf, type Stage } from "./settle/stage";

const { values: args } = parseArgs({
  options: {
    seconds: { type: "string", default: "60" },
    runs: { type: "string", default: "3" },
    /** multiples of the capacity */
    levels: { type: "string", default: "1,2,3" },
    /** payments per second; measured when absent */
    capacity: { type: "string" },
  },
});
const seconds = Number(args.seconds);
const levels = args.levels.split(",").map(Number);

const PAYERS = 2_000;
/** as many as wait for their block at a thousand payments per second */
const CALLERS = 1_500;
/** the default of AUTHORIZE_WAIT_MS, and the time for the answer to be written and read */
const SILENT_MS = 25_000 + 1_000;
const SAMPLE_MS = 250;
/** Memory is read again after that long without a payment: an idle process collects its garbage after one to two minutes. */
const REST_MS = 120_000;
const payTo = addressOfKey(testKey("bench payee") as Hex);

type Generator = Helper<OverloadAsk, OverloadReport | "signed">;
type Scene = Stage & { readonly generator: Generator };

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const sumOf = (counts: Readonly<Record<string, number>>): number => Object.values(counts).reduce((a, b) => a + b, 0);
const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

function figure(name: string, value: number, goal: number | null = null, digits = 0): void {
  say(JSON.stringify({ figure: name, value: Number(value.toFixed(digits)), goal, seconds, runs: Number(args.runs) }));
}

/** MB of memory that the process has in use. */
function rssMbOf(pid: number): number {
  const kb = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kb) / 1_024;
}

/** Records the largest memory until it is stopped. */
function watchMemory(pid: number) {
  let peakMb = rssMbOf(pid);
  const timer = setInterval(() => {
    peakMb = Math.max(peakMb, rssMbOf(pid));
  }, SAMPLE_MS);
  return {
    stop(): number {
      clearInterval(timer);
      return peakMb;
    },
  };
}

/** Connections that the kernel dropped because nobody accepted them, of the whole machine. */
function droppedByKernel(): number {
  const [names, values] = readFileSync("/proc/net/netstat", "utf8")
    .split("\n")
    .filter((line) => line.startsWith("TcpExt:"))
    .map((line) => line.split(" "));
  return Number(values?.[names?.indexOf("ListenOverflows") ?? -1] ?? 0);
}

/** Waits until what was accepted has reached the payee. */
async function settled({ chain }: Scene): Promise<bigint> {
  for (let before = -1n; ; ) {
    const paid = await chain.balanceOf(payTo);
    if (paid === before) return paid;
    before = paid;
    await pause(3_000);
  }
}

async function offer(scene: Scene, name: string, what: Offer): Promise<OverloadReport & { cpuMs: number }> {
  const { generator, chain, facilitator } = scene;
  const count = "perSec" in what ? what.perSec * what.seconds : what.callers * (what.seconds + 4) * 4;
  const terms = payloadTermsOf(chain, { endpoint: "/authorize", payTo, payers: PAYERS });
  await generator.ask({ kind: "sign", terms, count: Math.ceil(count) + 1 });
  const paidBefore = await settled(scene);
  const cpuBefore = cpuSecOf(facilitator.pid);
  const droppedBefore = droppedByKernel();
  const report = await generator.ask({ kind: "offer", url: facilitator.url, offer: what, silentMs: SILENT_MS });
  if (report === "signed") throw new TypeError("the generator was not asked to sign");
  const paid = (await settled(scene)) - paidBefore;
  if (paid < BigInt(report.confirmed) * AMOUNT) throw new TypeError("the payee holds less than was confirmed");
  const cpuMs = ((cpuSecOf(facilitator.pid) - cpuBefore) * 1_000) / Math.max(1, report.confirmed);
  const dropped = droppedByKernel() - droppedBefore;
  const { goodput, confirmed, offered, pending, shed, bareShed, closed, silent, own, other } = report;
  say(
    `${name}: ${offered} offered (${report.offeredInTime} in time), ${confirmed} confirmed (${goodput.toFixed(0)}/s), p50 ${report.p50Ms} ms, p99 ${report.p99Ms} ms; ${cpuMs.toFixed(2)} ms CPU each`,
  );
  say(
    `  503 with Retry-After ${shed} (p99 ${report.shedP99Ms} ms), without ${bareShed}; 202 ${pending}; other ${JSON.stringify(other)}; closed ${JSON.stringify(closed)}; silent ${silent}; dropped by the kernel ${dropped}`,
  );
  say(
    `  the generator: ${report.cpuSec.toFixed(1)} s of CPU, at most ${report.latestMs} ms late, a turn of at most ${report.longestTurnMs} ms, ${report.readLate} answers read too late to judge, ${report.mostOpen} open, failed itself ${JSON.stringify(own)}; the Facilitator's memory ${rssMbOf(facilitator.pid).toFixed(0)} MB`,
  );
  return { ...report, cpuMs };
}

async function capacityOf(scene: Scene): Promise<number> {
  const { goodput } = await offer(scene, `${CALLERS} callers`, { callers: CALLERS, seconds: Math.max(8, seconds / 3) });
  return Math.round(goodput);
}

type Measured = OverloadReport & { cpuMs: number };

interface Run {
  /** one for each level */
  readonly reports: readonly Measured[];
  readonly capacity: number;
  readonly peakMb: number;
  /** memory after {@link REST_MS} without a request */
  readonly restMb: number;
}

/** @param known the capacity; measured when absent */
async function measure(scene: Scene, run: number, known: number | undefined): Promise<Run> {
  const { facilitator } = scene;
  const memory = watchMemory(facilitator.pid);
  await offer(scene, "warm-up", { callers: CALLERS / 3, seconds: Math.max(4, Math.round(seconds / 6)) });
  const capacity = known ?? (await capacityOf(scene));
  say(`capacity ${capacity}/s`);
  const reports: Measured[] = [];
  for (const level of levels)
    reports.push(await offer(scene, `run ${run}, ${level}x`, { perSec: capacity * level, seconds }));
  const peakMb = memory.stop();
  await pause(REST_MS);
  return { reports, capacity, peakMb, restMb: rssMbOf(facilitator.pid) };
}

function printFigures(measured: readonly Run[]): void {
  const runs = measured.map(({ reports }) => reports);
  figure("overload.capacityPerSec", measured[0]?.capacity ?? 0);
  levels.forEach((level, place) => {
    const reports = runs.flatMap((run) => run[place] ?? []);
    const total = (of: (report: OverloadReport) => number): number => reports.reduce((sum, each) => sum + of(each), 0);
    const name = (what: string): string => `overload.${level}x.${what}`;
    const ofPeak = runs.map((run) => (run[place]?.goodput ?? 0) / Math.max(...run.map(({ goodput }) => goodput)));
    figure(name("goodputOfPeak"), median(ofPeak), level === 3 ? 0.9 : null, 3);
    figure(name("goodputPerSec"), median(reports.map(({ goodput }) => goodput)));
    figure(name("p99Ms"), median(reports.map(({ p99Ms }) => p99Ms)));
    figure(
      name("closed"),
      total(({ closed }) => sumOf(closed)),
      0,
    );
    figure(
      name("silent"),
      total(({ silent }) => silent),
      0,
    );
    figure(
      name("shed"),
      total(({ shed }) => shed),
    );
    figure(
      name("shedWithoutRetryAfter"),
      total(({ bareShed }) => bareShed),
      0,
    );
    figure(
      name("otherAnswers"),
      total(({ other }) => sumOf(other)),
      0,
    );
    figure(
      name("generatorFailed"),
      total(({ own }) => sumOf(own)),
    );
    figure(name("cpuMsPerPayment"), median(reports.map(({ cpuMs }) => cpuMs)), null, 3);
  });
  figure("overload.rssMb", Math.max(...measured.map(({ peakMb }) => peakMb)));
  figure("overload.rssAfterMb", Math.max(...measured.map(({ restMb }) => restMb)));
}

async function main(): Promise<void> {
  const anvil = findAnvil();
  if (!anvil) throw new TypeError("anvil is not installed for this platform: npm has @foundry-rs/anvil");
  if (process.platform !== "linux") throw new TypeError("the memory of a process is read from /proc: run it on Linux");
  const payers = Array.from({ length: PAYERS }, (_, index) => payerAddress(index));
  const runs: Run[] = [];
  for (let run = 1; run <= Number(args.runs); run++) {
    await onStage({ anvil, blocks: "each second", payers }, async (stage) => {
      const generator: Generator = startHelper("../overload/generator.ts");
      try {
        runs.push(
          await measure({ ...stage, generator }, run, runs[0]?.capacity ?? (Number(args.capacity) || undefined)),
        );
      } finally {
        await generator.stop();
      }
    });
  }
  printFigures(runs);
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
    process.exit(1);
  },
);
