/**
 * Notices that the sandbox must stop: Ctrl-C, SIGTERM, an output that nobody reads any more (`npm start | head`), or the
 * end of the parent npm process, which forwards no signal when it is killed.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

export interface Interruption {
  readonly signal: AbortSignal;
  /** Resolves at the first one. Later signals are ignored, so that stopping is not cut short. */
  readonly interrupted: Promise<void>;
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

const PARENT_LOOK_MS = 250;

/** npm forwards a Ctrl-C that the terminal sends to every process: one request arrives twice. */
const REPEATED_MS = 1_000;

/** @param onForced called on a further signal while the sandbox is stopping */
export function watchInterruption(onForced: () => void): Interruption {
  const stopping = new AbortController();
  let sinceMs = 0;
  const interrupted = new Promise<void>((resolve) => {
    const interrupt = (): void => {
      if (stopping.signal.aborted) {
        if (performance.now() - sinceMs > REPEATED_MS) onForced();
        return;
      }
      sinceMs = performance.now();
      stopping.abort();
      resolve();
    };
    for (const signal of SIGNALS) process.on(signal, interrupt);
    // Each further line fails, too, while the sandbox stops.
    for (const stream of [process.stdout, process.stderr])
      stream.on("error", () => {
        if (!stopping.signal.aborted) interrupt();
      });
    const event = process.env.npm_lifecycle_event ?? "";
    if (["start", "sandbox", "npx"].includes(event)) {
      const parent = process.ppid;
      // A shell may wait between npx and its program, and outlives npx.
      const npx = event === "npx" ? parentOfShell(parent) : undefined;
      const timer = setInterval(() => {
        if (process.ppid === parent && (npx === undefined || isAlive(npx))) return;
        clearInterval(timer);
        interrupt();
      }, PARENT_LOOK_MS);
      timer.unref();
    }
  });
  return { signal: stopping.signal, interrupted };
}

/** @returns undefined where `pid` is no shell, or the system does not say */
function parentOfShell(pid: number): number | undefined {
  try {
    const found =
      process.platform === "linux"
        ? readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^\d+ \((.*)\) \S+ (\d+) .*$/s, "$2 $1")
        : execFileSync("ps", ["-o", "ppid=", "-o", "comm=", "-p", `${pid}`], { encoding: "utf8" });
    const [, parent] = /^\s*(\d+)\s+(?:\S*[/-])?(?:ba|da|k|z)?sh\s*$/.exec(found) ?? [];
    return parent === undefined ? undefined : Number(parent);
  } catch {
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
