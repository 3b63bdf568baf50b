/** Processes that stop before a call of the file system, as in `stopping.ts`, and go on when a test says so. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { bundled } from "./bundled";
import { until } from "./until";

export interface StoppedProcess {
  /** Lets it run to its end. @returns what it printed */
  goOn(): Promise<string>;
}

export interface StoppedProcesses {
  /** a fresh folder */
  folder(): string;
  /** Starts one, and waits until it has stopped, or ended. The last argument is the number of the call. */
  start(...args: readonly (string | number)[]): Promise<StoppedProcess>;
  /** Runs one that stops nowhere. @returns the numbers of its calls, from 1 */
  calls(...args: readonly string[]): Promise<readonly number[]>;
}

/** Registers the hooks that prepare the processes and remove what is left. */
export function useStoppedProcesses(entry: string): StoppedProcesses {
  let home: string;
  let script: string;
  const children = new Set<ChildProcess>();
  before(() => {
    home = mkdtempSync(path.join(tmpdir(), "turnpike-stopped-"));
    script = bundled(path.join(__dirname, entry), home);
  });
  after(() => {
    for (const child of children) child.kill("SIGKILL");
    rmSync(home, { recursive: true, force: true });
  });

  const processes: StoppedProcesses = {
    folder: () => mkdtempSync(path.join(home, "of-a-test-")),
    async start(...args) {
      const child = spawn(process.execPath, [script, ...args.map(String)], { stdio: ["ignore", "pipe", "inherit"] });
      children.add(child);
      let text = "";
      let isClosed = false;
      child.stdout.on("data", (chunk: Buffer) => {
        text += chunk.toString();
      });
      const closed = once(child, "close").then(() => {
        isClosed = true;
        children.delete(child);
      });
      await until(async () => isClosed || text.includes("stopped"), `${args.join(" ")} stops`);
      return {
        async goOn() {
          child.kill("SIGCONT");
          await closed;
          return text;
        },
      };
    },
    async calls(...args) {
      const text = await (await processes.start(...args, 0)).goOn();
      const length = Number(/^calls (\d+)$/m.exec(text)?.[1]);
      return Array.from({ length }, (_, i) => i + 1);
    },
  };
  return processes;
}
