/** Processes that share a folder, killed, stopped and continued in generated orders. CHAOS_RUNS sets how often. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import fc from "fast-check";
import { createFileMeterStore } from "../../../../sdk/src/gate/provider/create-meter";
import { bundled } from "../../../support/bundled";
import { until } from "../../../support/until";

const RUNS = Number(process.env.CHAOS_RUNS ?? 3);

const deeds = fc.array(
  fc.record({
    process: fc.nat(2),
    signal: fc.constantFrom("SIGKILL", "SIGSTOP", "SIGCONT", "SIGSTOP"),
    afterMs: fc.integer({ min: 5, max: 250 }),
  }),
  { minLength: 4, maxLength: 16 },
);

describe("processes that share a log, in generated orders of kills and stops", function () {
  this.timeout(900_000);
  let home: string;
  let script: string;
  const children = new Set<ChildProcess>();
  before(() => {
    home = mkdtempSync(path.join(tmpdir(), "turnpike-chaos-"));
    script = bundled(path.join(__dirname, "../../../support/chaos-process.ts"), home);
  });
  after(() => {
    for (const child of children) child.kill("SIGKILL");
    rmSync(home, { recursive: true, force: true });
  });

  async function run(kind: string, all: readonly { process: number; signal: string; afterMs: number }[]) {
    const folder = mkdtempSync(path.join(home, `${kind}-`));
    const texts: { text: string }[] = [];
    let names = 0;
    const launch = (): ChildProcess => {
      const name = `p${names++}`;
      const out = { text: "" };
      texts.push(out);
      const child = spawn(process.execPath, [script, kind, folder, name, String(names * 7_919)], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      children.add(child);
      child.stdout?.on("data", (chunk: Buffer) => (out.text += chunk));
      return child;
    };
    const running = [launch(), launch(), launch()];
    await until(async () => texts.every(({ text }) => text !== ""), "all begin", 60_000);
    for (const { process: at, signal, afterMs } of all) {
      await sleep(afterMs);
      const child = running[at] as ChildProcess;
      child.kill(signal as NodeJS.Signals);
      if (signal !== "SIGKILL") continue;
      await once(child, "close");
      children.delete(child);
      running[at] = launch();
    }
    for (const child of running) child.kill("SIGCONT");
    await sleep(300);
    await Promise.all(
      running.map(async (child) => {
        const closed = once(child, "close");
        child.kill("SIGKILL");
        await closed;
        children.delete(child);
      }),
    );
    return { folder, lines: texts.flatMap(({ text }) => text.split("\n").slice(0, -1)) };
  }

  const errorsIn = (lines: readonly string[]) => [...new Set(lines.filter((line) => line.startsWith("error")))];

  it("sell no payment twice", async () => {
    await fc.assert(
      fc.asyncProperty(deeds, async (all) => {
        const { folder, lines } = await run("sell", all);
        const sold = lines.flatMap((line) => /^sold (\d+)/.exec(line)?.[1] ?? []);
        expect(sold.length).to.equal(new Set(sold).size);
        expect(sold.length).to.be.greaterThan(0);
        if (process.env.CHAOS_RUNS) process.stdout.write(`${sold.length} sold; ${errorsIn(lines).join("; ")}\n`);
        rmSync(folder, { recursive: true });
      }),
      { numRuns: RUNS, endOnFailure: true },
    );
  });

  it("owe what was acknowledged at least, and what was asked at most, with receipts' numbers once", async () => {
    await fc.assert(
      fc.asyncProperty(deeds, async (all) => {
        const { folder, lines } = await run("charge", all);
        const sum = (word: RegExp) => lines.reduce((total, line) => total + BigInt(word.exec(line)?.[1] ?? 0), 0n);
        const [charged, asked] = [sum(/^charged (\d+)/), sum(/^asked (\d+)/)];
        const numbers = lines.flatMap((line) => /^charged \d+ (\d-\d+)/.exec(line)?.[1] ?? []);
        expect(numbers.length).to.equal(new Set(numbers).size);
        const store = createFileMeterStore({ path: path.join(folder, "meter.log"), leaseMs: 300 });
        await store.open();
        let owed = 0n;
        for (const { pending, inFlight } of store.everyAccount())
          owed += inFlight.reduce((total, { amount }) => total + amount, pending);
        const { settled } = store.totals();
        await store.close();
        if (process.env.CHAOS_RUNS)
          process.stdout.write(
            `charged ${charged} <= ${owed + settled} <= asked ${asked}, settled ${settled}; ${errorsIn(lines).join("; ")}\n`,
          );
        expect(charged <= owed + settled, `charged ${charged}, owed ${owed}, settled ${settled}`).to.equal(true);
        expect(owed + settled <= asked, `asked ${asked}, owed ${owed}, settled ${settled}`).to.equal(true);
        rmSync(folder, { recursive: true });
      }),
      { numRuns: RUNS, endOnFailure: true },
    );
  });
});
