// Measures the payments that the Facilitator confirms, the callers' latency and the CPU cost, next to the reference
// facilitator's code on the same chain. Chain, RPC proxy, Facilitator and load are separate processes. Any result other
// than a confirmed payment (503, 202, a time-out) counts as failed. Prints a table and one JSON line per figure.
// Run: npm run bench:settle [-- --quick --embedded --only=sustained,closed,concurrent,split,reference --rate=1200]

import { existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { addressOfKey, type Hex, keccakText } from "turnpike/protocol";
import { testKey } from "../scripts/sandbox/chain";
import { CHAIN_ID, findAnvil, type LoadChain, startLoadChain } from "./settle/chain";
import type { GeneratorAsk, Load, LoadReport } from "./settle/generator";
import { type Endpoint, payerAddress } from "./settle/payloads";
import { cpuSecOf, cpuSecOfTree, type Helper, startHelper } from "./settle/process";
import { REFERENCE_HOME, type ReferenceAnswer, type ReferenceAsk } from "./settle/reference";
import { filesOfNoPart, splitOf } from "./settle/split";
import { AMOUNT, type Blocks, FUNDS, onStage, payloadTermsOf, type Stage } from "./settle/stage";

const { values: args } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    embedded: { type: "boolean", default: false },
    only: { type: "string", default: "sustained,closed,concurrent,split,reference" },
    rate: { type: "string", default: "1200" },
    seconds: { type: "string" },
  },
});
const perSec = Number(args.rate);
const seconds = Number(args.seconds ?? (args.quick ? 10 : 60));
const shortSeconds = args.quick ? 8 : 20;

const PAYERS = 2_000;
const CALLERS = 500;
const WARM_UP = 2_000;
const BUDGET_MS = 0.5;
/** The CPU time of settlement itself; the rest is what any service needs that serves HTTP and queries a node. */
const SETTLING = ["judging", "storing", "encoding", "receipts", "proofs"] as const;
const payTo = addressOfKey(testKey("bench payee") as Hex);

interface Figure {
  readonly figure: string;
  readonly value: number;
  readonly goal: number | null;
}
const figures: Figure[] = [];
const record = (figure: string, value: number, goal: number | null = null, digits = 0): void => {
  figures.push({ figure, value: Number(value.toFixed(digits)), goal });
};
const say = (line: string): void => void process.stdout.write(`${line}\n`);

type Generator = Helper<GeneratorAsk, LoadReport | "signed">;

async function sign(generator: Generator, chain: LoadChain, endpoint: Endpoint, count: number): Promise<void> {
  await generator.ask({ kind: "sign", terms: payloadTermsOf(chain, { endpoint, payTo, payers: PAYERS }), count });
}

async function load(generator: Generator, url: string, what: Load): Promise<LoadReport> {
  const report = await generator.ask({ kind: "run", url, load: what });
  if (report === "signed") throw new TypeError("the generator was not asked to sign");
  return report;
}

type Scene = Stage & { readonly generator: Generator };

/** Creates all parts of one scenario, so that no earlier measurement affects it. */
function stage<T>(blocks: Blocks, work: (scene: Scene) => Promise<T>, fromSources = false): Promise<T> {
  const payers = Array.from({ length: PAYERS }, (_, index) => payerAddress(index));
  return onStage({ anvil, blocks, embedded: args.embedded, fromSources, payers }, async (parts) => {
    const generator: Generator = startHelper("generator.ts");
    try {
      return await work({ ...parts, generator });
    } finally {
      await generator.stop();
    }
  });
}

/** Runs a load after a warm-up and returns the CPU time of every process. */
async function measure(
  scene: Scene,
  what: Load,
  endpoint: Endpoint = "/authorize",
): Promise<LoadReport & { cpuMs: number }> {
  const { chain, generator, facilitator, proxy, postgresPid } = scene;
  const count = what.kind === "open" ? what.perSec * what.seconds : what.callers * (what.seconds + 4) * 8;
  await sign(generator, chain, endpoint, count + WARM_UP * 2);
  const warm = await load(generator, facilitator.url, { kind: "open", perSec: WARM_UP / 4, seconds: 4 });
  const paidBefore = await chain.balanceOf(payTo);
  if (paidBefore < BigInt(warm.confirmed) * AMOUNT) throw new TypeError("the payee holds less than was confirmed");
  const pids = { facilitator: facilitator.pid, anvil: chain.pid, proxy: proxy.pid };
  const before = Object.entries(pids).map(([name, pid]) => [name, pid, cpuSecOf(pid)] as const);
  const databaseBefore = postgresPid ? cpuSecOfTree(postgresPid) : 0;
  const report = await load(generator, facilitator.url, what);
  const used = Object.fromEntries(before.map(([name, pid, sec]) => [name, cpuSecOf(pid) - sec]));
  const paid = (await chain.balanceOf(payTo)) - paidBefore;
  if (paid < BigInt(report.confirmed) * AMOUNT) throw new TypeError("the payee holds less than was confirmed");
  const share = (sec: number): string => `${((sec / report.seconds) * 100).toFixed(0)} %`;
  const cpuMs = ((used.facilitator ?? 0) * 1_000) / Math.max(1, report.confirmed);
  const rate = report.confirmed / report.seconds;
  say(
    `  ${report.confirmed} of ${report.sent} confirmed in ${report.seconds.toFixed(1)} s (${rate.toFixed(0)}/s), p50 ${report.p50Ms} ms, p99 ${report.p99Ms} ms, max ${report.maxMs} ms; ${cpuMs.toFixed(3)} ms CPU each`,
  );
  say(
    `  of one core: facilitator ${share(used.facilitator ?? 0)}, anvil ${share(used.anvil ?? 0)}, proxy ${share(used.proxy ?? 0)}, generator ${share(report.cpuSec)} (at most ${report.latestMs} ms late)${postgresPid ? `, postgres ${share(cpuSecOfTree(postgresPid) - databaseBefore)}` : ""}`,
  );
  if (report.failed > 0) say(`  failed: ${JSON.stringify(report.failures)}`);
  const { refused, transactions, largestBytes } = await proxy.ask({ kind: "report" });
  say(`  proxy: ${transactions} transactions, the largest ${largestBytes} bytes, refused ${JSON.stringify(refused)}`);
  return { ...report, cpuMs };
}

async function sustained(): Promise<void> {
  say(`(a) 1-second blocks, ${perSec} arrivals/s for ${seconds} s, one key`);
  await stage("each second", async (scene) => {
    const report = await measure(scene, { kind: "open", perSec, seconds });
    record("settle.sustainedPerSec", report.confirmed / report.seconds, 1_000);
    record("settle.sustained.failed", report.failed, 0);
    record("settle.p50Ms", report.p50Ms, 1_300);
    record("settle.p99Ms", report.p99Ms, 2_500);
    record("settle.cpuMsPerPayment", report.cpuMs, BUDGET_MS, 3);
  });
}

async function closed(): Promise<void> {
  say(`(b) 1-second blocks, ${CALLERS} callers in a closed loop for ${shortSeconds} s`);
  await stage("each second", async (scene) => {
    const report = await measure(scene, { kind: "closed", callers: CALLERS, seconds: shortSeconds });
    record("settle.closed500.perSec", report.confirmed / report.seconds, 450);
    record("settle.closed500.failed", report.failed, 0);
  });
}

async function concurrent(): Promise<void> {
  say(`(c) automine, ${CALLERS} callers in a closed loop for ${shortSeconds} s`);
  await stage("at once", async (scene) => {
    const report = await measure(scene, { kind: "closed", callers: CALLERS, seconds: shortSeconds });
    record("settle.concurrent500.perSec", report.confirmed / report.seconds);
    record("settle.concurrent500.failed", report.failed, 0);
  });
}

/** Divides the CPU time of a payment in the built program by the shares of a profile of its sources. */
async function split(): Promise<void> {
  say(`CPU by kind of work: the load of (a) for ${shortSeconds} s, and a profile at half of it, which shows shares`);
  const { cpuMs } = await stage("each second", (scene) =>
    measure(scene, { kind: "open", perSec, seconds: shortSeconds }),
  );
  const profile = await stage(
    "each second",
    async ({ chain, generator, facilitator }) => {
      const what: Load = { kind: "open", perSec: perSec / 2, seconds: shortSeconds };
      await sign(generator, chain, "/authorize", what.perSec * what.seconds * 2);
      await load(generator, facilitator.url, what);
      return facilitator.profile(() => load(generator, facilitator.url, what));
    },
    true,
  );
  // A profile gives shares, not amounts: it costs time itself, and it samples also while other processes use the core.
  const shares = splitOf(profile);
  const unknown = filesOfNoPart(profile);
  if (unknown.length > 0)
    say(`in no part of bench/settle/split.ts, and counted for their callers: ${unknown.join(", ")}`);
  const all = Object.values(shares).reduce((sum, ms) => sum + ms, 0);
  for (const [work, ms] of Object.entries(shares)) record(`settle.cpuMs.${work}`, (cpuMs * ms) / all, null, 3);
  const ofSettling = SETTLING.reduce((sum, work) => sum + shares[work], 0);
  record("settle.cpuMs.settling", (cpuMs * ofSettling) / all, BUDGET_MS, 3);
  if (process.env.KEEP_PROFILE) writeFileSync(process.env.KEEP_PROFILE, JSON.stringify(profile));
}

async function reference(): Promise<void> {
  if (!existsSync(path.join(REFERENCE_HOME, "node_modules/x402/package.json"))) {
    say("reference: run `npm ci` in test/interop first; x402 1.2.0, which is compared with, is installed there alone");
    return;
  }
  for (const [name, hasNonceManager] of [
    ["stock", false],
    ["nonceManager", true],
  ] as const) {
    say(`reference x402 1.2.0, ${name}: automine without an RPC's limits, ${CALLERS} callers for ${shortSeconds} s`);
    const chain = await startLoadChain(anvil);
    const generator: Generator = startHelper("generator.ts");
    const server = startHelper<ReferenceAsk, ReferenceAnswer>("reference.ts");
    try {
      await chain.fund(
        Array.from({ length: PAYERS }, (_, index) => payerAddress(index)),
        FUNDS,
      );
      const key = keccakText(`turnpike bench reference ${name}`);
      await chain.giveGas(addressOfKey(key));
      const { url } = await server.ask({ rpcUrl: chain.rpcUrl, key, hasNonceManager });
      await sign(generator, chain, "/settle", CALLERS * shortSeconds * 4);
      const before = cpuSecOf(server.pid);
      const report = await load(generator, url, { kind: "closed", callers: CALLERS, seconds: shortSeconds });
      const cpuMs = ((cpuSecOf(server.pid) - before) * 1_000) / Math.max(1, report.confirmed);
      say(`  ${report.confirmed} of ${report.sent} confirmed, p50 ${report.p50Ms} ms, p99 ${report.p99Ms} ms`);
      if (report.failed > 0) say(`  failed: ${JSON.stringify(report.failures)}`);
      record(`reference.${name}.perSec`, report.confirmed / report.seconds, null, 1);
      record(`reference.${name}.failed`, report.failed);
      record(`reference.${name}.p99Ms`, report.p99Ms);
      record(`reference.${name}.cpuMsPerPayment`, cpuMs, null, 2);
    } finally {
      await server.stop();
      await generator.stop();
      await chain.stop();
    }
  }
}

const found = findAnvil();
if (!found) {
  say("anvil is not installed for this platform: it comes with `npm ci` where npm has @foundry-rs/anvil");
  process.exit(1);
}
const anvil: string = found;

async function main(): Promise<void> {
  say(
    `chain ${CHAIN_ID}, database ${args.embedded ? "embedded, on disk, which does not sync" : "PostgreSQL with fsync"}, ${PAYERS} payers`,
  );
  const scenarios = { sustained, closed, concurrent, split, reference };
  // In the order of the request.
  for (const name of args.only.split(",")) await scenarios[name as keyof typeof scenarios]();
  for (const { figure, value, goal } of figures) {
    say(`${figure.padEnd(36)} ${String(value).padStart(10)}${goal === null ? "" : `   goal ${goal}`}`);
  }
  for (const figure of figures) say(JSON.stringify(figure));
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
    process.exit(1);
  },
);
