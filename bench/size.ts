// Measures what the gate, the agent and other paying clients weigh in a minified, gzipped bundle, and the CPU time of their
// first import in fresh processes; what is loaded later, such as the websockets of a chain, counts by itself. Prints what
// weighs most, a table and one JSON line per figure. The package is built and packed as for npm; the others are those of
// the interop suite's lock.
// Run: npm run bench:size

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { type BundleOptions, bundle } from "../test/package/support/bundle";
import { emptyProject } from "../test/package/support/packed";

const { installLocked }: { installLocked(folder: string): number } = require("../tools/locked-folder.cjs");

const INTEROP = join(__dirname, "../test/interop");

/** Processes of which the median counts. */
const RUNS = 9;

/** A part weighs much from here on, bytes before compression. */
const MUCH_BYTES = 5_000;

interface Subject {
  readonly name: string;
  /** what its user writes */
  readonly program: string;
  readonly platform?: BundleOptions["platform"];
  readonly goals?: { readonly gzipKB: number; readonly importCpuMs: number };
}

const OWN: readonly Subject[] = [
  {
    name: "gate",
    program: `export { createProvider } from "turnpike/gate"; export { expressGate } from "turnpike/gate/express";`,
    platform: "node",
    goals: { gzipKB: 250, importCpuMs: 300 },
  },
  {
    name: "agent",
    program: `export { createAgent, walletFromKey } from "turnpike/agent";`,
    goals: { gzipKB: 90, importCpuMs: 200 },
  },
  // In a page the agent alone; on Node the gate as well.
  { name: "turnpike", program: `export * from "turnpike"; export * from "turnpike/protocol";` },
];

const KEY = `export { privateKeyToAccount } from "viem/accounts";`;

const OTHERS: readonly Subject[] = [
  {
    name: "@x402/fetch",
    program: `export { wrapFetchWithPayment, x402Client } from "@x402/fetch"; export { ExactEvmScheme } from "@x402/evm/exact/client"; ${KEY}`,
  },
  { name: "x402-fetch", program: `export { wrapFetchWithPayment, createSigner } from "x402-fetch";` },
  { name: "mppx", program: `export { Mppx, evm } from "mppx/client"; ${KEY}` },
];

interface Figure {
  readonly figure: string;
  readonly value: number;
  readonly goal: number | null;
}

async function measure(
  { name, program, platform, goals }: Subject,
  cwd: string,
): Promise<{ figures: readonly Figure[]; heavy: string }> {
  // Servers are often split; and a bundler that splits leaves out less of each part.
  const whole = await bundle(program, { cwd, ...(platform && { platform, splitting: platform === "node" }) });
  const kB = (bytes: number) => Math.round(bytes / 100) / 10;
  const cpuMs = await importCpuMs(program, cwd);
  const figures: Figure[] = [
    { figure: `${name}.gzipKB`, value: kB(whole.gzipBytes), goal: goals?.gzipKB ?? null },
    ...(whole.laterGzipBytes > 0
      ? [{ figure: `${name}.laterGzipKB`, value: kB(whole.laterGzipBytes), goal: null }]
      : []),
    { figure: `${name}.importCpuMs`, value: cpuMs, goal: goals?.importCpuMs ?? null },
  ];
  const heavy = whole.weights.filter(([, bytes]) => bytes > MUCH_BYTES).map(([part, bytes]) => `${part} ${kB(bytes)}`);
  return { figures, heavy: `${name}, kB minified: ${heavy.join(", ")}` };
}

/** The CPU time of all threads, in ms: the median of fresh processes. */
async function importCpuMs(program: string, cwd: string): Promise<number> {
  const names = [...program.matchAll(/from ("[^"]+")/g)].map(([, name]) => name);
  const script = `const start = process.cpuUsage();
    for (const name of [${names.join(", ")}]) await import(name);
    const { user, system } = process.cpuUsage(start);
    console.log((user + system) / 1_000);`;
  const times: number[] = [];
  for (let run = 0; run < RUNS; run++) {
    const args = ["--input-type=module", "--eval", script];
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd });
    times.push(Number(stdout));
  }
  return Math.round(times.sort((one, other) => one - other)[Math.floor(RUNS / 2)] ?? Number.NaN);
}

async function main(): Promise<void> {
  if (installLocked(INTEROP) !== 0) throw new Error(`The packages of ${INTEROP} are not installed.`);
  const project = await emptyProject();
  const figures: Figure[] = [];
  try {
    for (const [subjects, cwd] of [[OWN, project.folder] as const, [OTHERS, INTEROP] as const]) {
      for (const subject of subjects) {
        const measured = await measure(subject, cwd);
        console.log(measured.heavy);
        figures.push(...measured.figures);
      }
    }
  } finally {
    await project.remove();
  }
  for (const { figure, value, goal } of figures)
    console.log(`${figure.padEnd(42)}${String(value).padStart(10)}${String(goal ?? "").padStart(10)}`);
  for (const figure of figures) console.log(JSON.stringify(figure));
  process.exitCode = figures.some(({ value, goal }) => goal !== null && value > goal) ? 1 : 0;
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
