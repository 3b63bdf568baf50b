/** Processes that own a lock while their clock is wrong, and are killed. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { bundled } from "./bundled";

export const STALE_MS = 2_000;

export const DAY_MS = 86_400_000;

/** Clocks that are wrong while the owner lives, and what the time of its lock is changed to once it is killed. */
export const WRONG_CLOCKS = [
  { clock: "a day behind", shiftMs: -DAY_MS, leftMs: -2 * DAY_MS },
  { clock: "a day ahead", shiftMs: DAY_MS, leftMs: DAY_MS },
] as const;

export interface LockOwner {
  /** Ends it without a release, and moves the time of the lock that it leaves away from this machine's. */
  kill(lockPath?: string, leftMs?: number): Promise<void>;
}

export interface LockOwners {
  /** a folder of its own for each test */
  readonly folder: string;
  /** Starts a process whose clock is off by this much. Ends once it has the lock. */
  start(kind: "file" | "ledger" | "journal" | "rotation", at: string, shiftMs: number): Promise<LockOwner>;
}

/** Registers the hooks that prepare the processes and remove what is left. */
export function useLockOwners(): LockOwners {
  let home: string;
  let folder: string;
  let script: string;
  const children: ChildProcess[] = [];
  before(() => {
    home = mkdtempSync(path.join(tmpdir(), "turnpike-lock-"));
    script = bundled(path.join(__dirname, "lock-process.ts"), home);
  });
  beforeEach(() => {
    folder = mkdtempSync(path.join(home, "of-a-test-"));
  });
  after(() => {
    for (const child of children) child.kill("SIGKILL");
    rmSync(home, { recursive: true, force: true });
  });
  return {
    get folder() {
      return folder;
    },
    async start(kind, at, shiftMs) {
      const clock = path.join(__dirname, "../facilitator/support/shifted-clock.cjs");
      const child = spawn(process.execPath, ["-r", clock, script, kind, at], {
        env: { PATH: process.env.PATH, CLOCK_SHIFT_MS: String(shiftMs), STALE_MS: String(STALE_MS) },
        stdio: ["ignore", "pipe", "inherit"],
      });
      children.push(child);
      await once(child.stdout as NodeJS.ReadableStream, "data");
      return {
        async kill(lockPath, leftMs = 0) {
          child.kill("SIGKILL");
          await once(child, "exit");
          if (lockPath === undefined) return;
          const left = new Date(Date.now() + leftMs);
          utimesSync(lockPath, left, left);
        },
      };
    },
  };
}
