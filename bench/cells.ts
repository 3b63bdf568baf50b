/**
 * What a log of cells costs: a line of another process, a million used claims (open, memory), and the longest stall of
 * the event loop while a generation of them is begun. `npm run bench:cells`; figures as JSON.
 */
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import { LogCells } from "../sdk/src/gate/cells/log";
import { openNewest, pathOf, writeNext } from "../sdk/src/gate/cells/log/generations";
import { keccakText } from "../sdk/src/protocol";

const RECORDS = Number(process.env.RECORDS ?? 1_000_000);
const FOREIGN = 100_000;
const NOW_SEC = 1_800_000_000;

const usedText = (): string => `S used ${"o".repeat(22)} 1800000000000 0 ${NOW_SEC + 600_000};`;
const cpuMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
};

async function main(): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-bench-cells-"));
  const place = { folder, name: "gate" };
  const make = () => new LogCells({ ...place, what: "claims", rotateBytes: 2 ** 40 });
  const figures: Record<string, number> = { records: RECORDS };
  try {
    const writer = make();
    const reader = make();
    await reader.read(["a"]);
    for (let i = 0; i < FOREIGN; i++) {
      const id = keccakText(`foreign ${i}`);
      await writer.swap([{ key: id, expected: undefined, next: usedText(), untilSec: NOW_SEC }], { nowSec: NOW_SEC });
    }
    const before = cpuMs();
    await reader.read(["a"]);
    figures.foreignLineUs = (1_000 * (cpuMs() - before)) / FOREIGN;
    await reader.close();
    for (let i = FOREIGN; i < RECORDS; ) {
      const changes = Array.from({ length: 50 }, () => {
        const id = keccakText(`foreign ${i++}`);
        return { key: id, expected: undefined, next: usedText(), untilSec: NOW_SEC + 600_000 };
      });
      await writer.swap(changes, { nowSec: NOW_SEC });
    }
    await writer.close();

    const old = openNewest(place);
    const delay = monitorEventLoopDelay({ resolution: 5 });
    delay.enable();
    const begunMs = performance.now();
    await writeNext(place, old, NOW_SEC - 1);
    figures.rotationMs = performance.now() - begunMs;
    const next = openNewest(place, old);
    for (let i = 0; i < 50; i++) await new Promise((resolve) => setTimeout(resolve, 5));
    delay.disable();
    figures.longestStallMs = delay.max / 1e6;
    figures.fileBytes = statSync(pathOf(place, next.generation)).size;
    old.close();
    next.close();
  } finally {
    process.stdout.write(`${JSON.stringify(figures)}\n`);
  }
  // In a process of its own, so that nothing else is counted.
  const { execFileSync } = await import("node:child_process");
  process.stdout.write(execFileSync(process.execPath, [...process.execArgv, "--expose-gc", __filename, folder]));
  rmSync(folder, { recursive: true, force: true });
}

function open(folder: string): void {
  const collect = (globalThis as { gc?: () => void }).gc;
  collect?.();
  const before = process.memoryUsage();
  const cpu = cpuMs();
  const file = openNewest({ folder, name: "gate" });
  const openMs = cpuMs() - cpu;
  collect?.();
  const bytes = process.memoryUsage().heapUsed - before.heapUsed;
  process.stdout.write(`${JSON.stringify({ openCpuMs: openMs, heapMB: bytes / 2 ** 20 })}\n`);
  file.close();
}

const [, , folder] = process.argv;
if (folder) open(folder);
else void main();
