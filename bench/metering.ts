// Measures how many calls a meter charges per second. Each charge is on disk before it is confirmed,
// while debits are merged and sent to an in-memory lane, without a chain. Prints a table and one JSON line per figure;
// the goal is per core of this process, with 64 calls in flight.
// Run: npm run bench:metering

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Hex } from "turnpike/protocol";
import { createMeter } from "../sdk/src/gate/metering/meter";
import { createMemoryMeterStore } from "../sdk/src/gate/metering/shared-store";
import type { MeterStore } from "../sdk/src/gate/metering/store";
import { createFileMeterStore } from "../sdk/src/gate/provider/create-meter";
import { MeteredChain } from "../test/support/metered-chain";

interface Figure {
  readonly figure: string;
  readonly value: number;
  readonly goal: number | null;
}

const GOAL_PER_CORE = 10_000;
const SECONDS = 3;

async function measure(store: MeterStore, { parallel, subscriptions }: { parallel: number; subscriptions: number }) {
  const chain = new MeteredChain();
  const ids = Array.from({ length: subscriptions }, (_, i): Hex => chain.subscribe(i + 1, { cap: 10n ** 20n }));
  const meter = createMeter({
    store,
    sender: chain.sender,
    states: chain.states,
    clock: { nowSec: () => 1_000 },
    limits: { maxUnsettled: 10n ** 9n, settleAmount: 10n ** 5n },
  });
  await meter.start();
  let count = 0;
  const latenciesMs: number[] = [];
  const startMs = performance.now();
  const startCpu = process.cpuUsage();
  const endMs = startMs + SECONDS * 1_000;
  const work = async (worker: number): Promise<void> => {
    for (let i = worker; performance.now() < endMs; i += parallel) {
      const idHash = ids[i % ids.length] as Hex;
      const beganMs = performance.now();
      await meter.reserve(idHash, 10n, chain.facts(idHash));
      latenciesMs.push(performance.now() - beganMs);
      count++;
    }
  };
  await Promise.all(Array.from({ length: parallel }, (_, worker) => work(worker)));
  const seconds = (performance.now() - startMs) / 1_000;
  const { user, system } = process.cpuUsage(startCpu);
  await meter.flush();
  const { charged } = meter.unsettled();
  if (charged !== BigInt(count) * 10n || chain.sumDebited() !== charged) {
    throw new TypeError(`charged ${charged}, debited ${chain.sumDebited()}, calls ${count}`);
  }
  await meter.stop();
  latenciesMs.sort((a, b) => a - b);
  return {
    perSec: Math.round(count / seconds),
    perCpuSec: Math.round(count / ((user + system) / 1e6)),
    p99Ms: Math.round((latenciesMs[Math.floor(latenciesMs.length * 0.99)] ?? 0) * 100) / 100,
  };
}

async function main(): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-bench-"));
  const figures: Figure[] = [];
  const fileStore = (name: string) => createFileMeterStore({ path: path.join(folder, name) });
  try {
    const durable = await measure(fileStore("busy"), { parallel: 64, subscriptions: 100 });
    figures.push({ figure: "meter.reservations.perSec", value: durable.perSec, goal: GOAL_PER_CORE });
    figures.push({ figure: "meter.reservations.perCpuSec", value: durable.perCpuSec, goal: null });
    figures.push({ figure: "meter.reservations.p99Ms", value: durable.p99Ms, goal: null });
    const alone = await measure(fileStore("alone"), { parallel: 1, subscriptions: 1 });
    figures.push({ figure: "meter.reservations.oneAtATime.perSec", value: alone.perSec, goal: null });
    const memory = await measure(createMemoryMeterStore(), { parallel: 64, subscriptions: 100 });
    figures.push({ figure: "meter.reservations.inMemory.perSec", value: memory.perSec, goal: null });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  for (const { figure, value, goal } of figures) {
    console.log(`${figure.padEnd(42)}${String(value).padStart(10)}${String(goal ?? "").padStart(10)}`);
  }
  for (const figure of figures) console.log(JSON.stringify(figure));
  process.exitCode = figures.some(({ value, goal }) => goal !== null && value < goal) ? 1 : 0;
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
