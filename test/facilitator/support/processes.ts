/** The Facilitator as programs of their own, that can be killed: bundled once, so that a start takes a second. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import path from "node:path";
import { createFacilitatorClient, type FacilitatorClient } from "turnpike/facilitator";
import { freePort } from "../../support/chain";

const ROOT = path.resolve(__dirname, "../../..");
const START_TIMEOUT_MS = 90_000;

export interface Program {
  /** Runs it with these arguments; for commands that end by themselves. */
  run(args: readonly string[], env: Readonly<Record<string, string>>): Promise<Ended>;
  start(env: Readonly<Record<string, string>>, roles?: string): Promise<ServiceProcess>;
  remove(): void;
}

export interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ServiceProcess {
  readonly url: string;
  readonly client: FacilitatorClient;
  readonly pid: number;
  output(): string;
  /** as the machine would: no warning */
  kill(): Promise<void>;
  /** as an operator would. @returns its exit status */
  stop(): Promise<number | null>;
}

export function buildProgram(): Program {
  const tools: { build(outfile: string): string } = require("../../../facilitator/tools/build.cjs");
  // Inside the workspace, so that its packages are found from there.
  const folder = path.join(ROOT, "facilitator/dist");
  mkdirSync(folder, { recursive: true });
  const home = mkdtempSync(path.join(folder, "test-"));
  const outfile = tools.build(path.join(home, "facilitator.cjs"));

  const spawned = (args: readonly string[], env: Readonly<Record<string, string>>): ChildProcess =>
    spawn(process.execPath, [outfile, ...args], {
      cwd: ROOT,
      env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });

  return {
    async run(args, env) {
      const child = spawned(args, env);
      const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
      const [status] = await once(child, "close");
      return { status, stdout: stdout(), stderr: stderr() };
    },
    async start(env, roles) {
      const port = await freePort();
      const child = spawned(roles ? ["start", "--roles", roles] : ["start"], {
        ...env,
        PORT: String(port),
        LOG_LEVEL: "info",
      });
      const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
      const closed = once(child, "close");
      const output = (): string => stdout() + stderr();
      const url = await untilUp(child, output, `http://127.0.0.1:${port}`);
      const end = async (signal: NodeJS.Signals): Promise<number | null> => {
        child.kill(signal);
        const [status] = await closed;
        return status;
      };
      return {
        url,
        client: createFacilitatorClient({ url, timeoutMs: 15_000 }),
        pid: child.pid ?? 0,
        output,
        kill: async () => void (await end("SIGKILL")),
        stop: () => end("SIGTERM"),
      };
    },
    remove: () => rmSync(home, { recursive: true, force: true }),
  };
}

async function untilUp(child: ChildProcess, output: () => string, url: string): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`not up in time:\n${output()}`)), START_TIMEOUT_MS);
    const look = (): void => {
      if (!output().includes("the Facilitator is up")) return;
      clearTimeout(timer);
      resolve();
    };
    child.stdout?.on("data", look);
    child.once("exit", (status) => {
      clearTimeout(timer);
      reject(new Error(`ended with ${status} before it was up:\n${output()}`));
    });
  });
  return url;
}

function collect(stream: NodeJS.ReadableStream | null): () => string {
  let text = "";
  stream?.on("data", (chunk: Buffer) => {
    text += chunk.toString();
  });
  return () => text;
}
