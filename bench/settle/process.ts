/**
 * Manages the bench's child processes: starts them by file, exchanges messages, measures their CPU time, and ends them.
 */
import { type ChildProcess, execFileSync, fork } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import path from "node:path";

export const ROOT = path.resolve(__dirname, "../..");
/** How this project's TypeScript is run. */
export const RUN_TS = ["-r", require.resolve("../../tools/typescript.cjs")];
const STOP_MS = 10_000;
const TICKS_PER_SEC = 100;

export interface Helper<Ask, Answer> {
  readonly pid: number;
  /** @returns the child's next message after `message` was sent to it */
  ask(message: Ask): Promise<Answer>;
  stop(): Promise<void>;
}

/** Runs a TypeScript file of this bench in its own process. */
export function startHelper<Ask, Answer>(
  file: string,
  env: Readonly<Record<string, string>> = {},
): Helper<Ask, Answer> {
  const child = fork(path.join(__dirname, file), [], {
    cwd: ROOT,
    execArgv: RUN_TS,
    env: { ...process.env, ...env },
    serialization: "advanced",
  });
  endWithParent(child);
  return {
    pid: child.pid ?? 0,
    ask: (message) =>
      new Promise((resolve, reject) => {
        const fail = (code: number | null): void => reject(new TypeError(`${file} ended with ${code}`));
        child.once("exit", fail);
        child.once("message", (answer) => {
          child.off("exit", fail);
          resolve(answer as Answer);
        });
        child.send(message as object);
      }),
    stop: () => end(child),
  };
}

/** Handles the parent's messages sequentially: the child's side of `ask`. */
export function serveParent<Ask, Answer>(answer: (message: Ask) => Promise<Answer>): void {
  process.on("message", (message) => {
    answer(message as Ask).then(
      (result) => process.send?.(result),
      (error: unknown) => {
        process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
        process.exit(1);
      },
    );
  });
  process.on("disconnect", () => process.exit(0));
}

export function endWithParent(child: ChildProcess): void {
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  child.once("exit", () => process.off("exit", kill));
}

export async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
  await gone;
  clearTimeout(timer);
}

/** Returns the CPU seconds that a process has used, including its threads. */
export function cpuSecOf(pid: number): number {
  if (process.platform === "linux") {
    // After the name in parentheses, which may contain anything: state is field 3, utime 14, stime 15.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SEC;
  }
  const [seconds = "0", minutes = "0", hours = "0"] = execFileSync("ps", ["-o", "time=", "-p", String(pid)])
    .toString()
    .trim()
    .split(":")
    .reverse();
  return Number(seconds) + Number(minutes) * 60 + Number(hours) * 3_600;
}

/** Returns the most memory that a process has had in use, in MB. Linux only. */
export function peakRssMbOf(pid: number): number {
  const kb = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kb) / 1_024;
}

/** Sums the CPU seconds over a group of processes whose parent is `pid`, including itself. */
export function cpuSecOfTree(pid: number): number {
  const rows = execFileSync("ps", ["-A", "-o", "pid=,ppid="]).toString().trim().split("\n");
  const children = rows.map((row) => row.trim().split(/\s+/).map(Number)).filter(([, parent]) => parent === pid);
  return [pid, ...children.map(([child]) => child as number)].reduce((sum, each) => sum + cpuSecOrZero(each), 0);
}

function cpuSecOrZero(pid: number): number {
  try {
    return cpuSecOf(pid);
  } catch {
    // Ended between the listing and the read.
    return 0;
  }
}

export function parentOf(pid: number): number {
  return Number(execFileSync("ps", ["-o", "ppid=", "-p", String(pid)]).toString());
}
