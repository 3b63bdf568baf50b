/** Facilitator processes to be killed: built once into one file, so that hundreds of starts cost little each. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { build } from "esbuild";

const ROOT = path.resolve(__dirname, "../../../..");
const START_MS = 240_000;
const STARTS = 3;

export interface Victim {
  readonly url: string;
  readonly process: ChildProcess;
  /** the signal that ended it, or nothing when it ended by itself */
  readonly gone: Promise<NodeJS.Signals | null>;
  /** @returns when it is gone */
  kill(): Promise<void>;
}

export interface Victims {
  /** @returns undefined when it has ended before it listened */
  start(env: Readonly<Record<string, string>>): Promise<Victim | undefined>;
  /** Again, when one has ended by itself: a service manager would do the same. @throws Error when none stays up */
  startSurely(env: Readonly<Record<string, string>>): Promise<Victim>;
  stop(): Promise<void>;
}

export async function prepareVictims(): Promise<Victims> {
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-victims-"));
  const file = path.join(folder, "facilitator.cjs");
  await build({
    entryPoints: [path.join(__dirname, "kill-process.ts")],
    outfile: file,
    bundle: true,
    platform: "node",
    target: "node20",
    packages: "external",
    tsconfig: path.join(ROOT, "tsconfig.json"),
    logLevel: "error",
  });
  const modules = ["facilitator/node_modules", "sdk/node_modules", "node_modules"].map((name) => path.join(ROOT, name));
  const running = new Set<ChildProcess>();
  const killAll = (): void => {
    for (const child of running) child.kill("SIGKILL");
  };
  process.once("exit", killAll);

  const victims: Victims = {
    async start(env) {
      const child = spawn(process.execPath, ["--enable-source-maps", file], {
        cwd: ROOT,
        env: { PATH: process.env.PATH ?? "", NODE_PATH: modules.join(path.delimiter), PORT: "0", ...env },
        stdio: ["ignore", "ignore", "inherit", "ipc"],
      });
      running.add(child);
      const gone = once(child, "exit").then(([, signal]) => {
        running.delete(child);
        return signal as NodeJS.Signals | null;
      });
      const url = await new Promise<string | undefined>((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error("a Facilitator did not start in time")), START_MS);
        const settle = (reported: string | undefined): void => {
          clearTimeout(timer);
          resolve(reported);
        };
        child.once("message", (message) => settle((message as { url: string }).url));
        child.once("exit", () => settle(undefined));
      });
      if (url === undefined) return undefined;
      return {
        url,
        process: child,
        gone,
        async kill() {
          child.kill("SIGKILL");
          await gone;
        },
      };
    },
    async startSurely(env) {
      for (let starts = 0; starts < STARTS; starts++) {
        const victim = await victims.start(env);
        if (victim) return victim;
      }
      throw new Error(`a Facilitator ended ${STARTS} times before it listened`);
    },
    async stop() {
      process.off("exit", killAll);
      const children = [...running];
      killAll();
      await Promise.all(
        children.map((child) => child.exitCode === null && child.signalCode === null && once(child, "exit")),
      );
      rmSync(folder, { recursive: true, force: true });
    },
  };
  return victims;
}
