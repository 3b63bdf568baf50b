/** The Facilitator as programs of their own, that can be killed: bundled once, so that a start takes a second. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { createFacilitatorClient, type FacilitatorClient } from "turnpike/facilitator";
import { freePort } from "../../support/chain";
import { until } from "../../support/until";

const ROOT = path.resolve(__dirname, "../../..");
const START_TIMEOUT_MS = 90_000;

export interface Program {
  /** Runs it with these arguments; for commands that end by themselves. */
  run(args: readonly string[], env: Readonly<Record<string, string>>): Promise<Ended>;
  start(env: Readonly<Record<string, string>>, roles?: string): Promise<ServiceProcess>;
  /** Runs it with these arguments and nothing in its environment but `env`, a free PORT and loopback; does not wait. */
  launch(args: readonly string[], env: Readonly<Record<string, string>>): Promise<LaunchedProcess>;
  remove(): void;
}

export interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface LaunchedProcess extends ServiceProcess {
  /** Resolves when it has said that it is up; rejects when it ends before. */
  untilUp(): Promise<void>;
  /** its exit status, once it has ended */
  readonly ended: Promise<number | null>;
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

/** @param change applied to the program's text, for a release that is not there yet */
export function buildProgram(change = (text: string) => text): Program {
  const tools: { build(outfile: string): string } = require("../../../facilitator/tools/build.cjs");
  // Inside the workspace, so that its packages are found from there.
  const folder = path.join(ROOT, "facilitator/dist");
  mkdirSync(folder, { recursive: true });
  const home = mkdtempSync(path.join(folder, "test-"));
  const outfile = tools.build(path.join(home, "facilitator.cjs"));
  writeFileSync(outfile, change(readFileSync(outfile, "utf8")));
  return programAt(outfile, () => rmSync(home, { recursive: true, force: true }));
}

/** @param remove called at the end */
export function programAt(outfile: string, remove: () => void): Program {
  const spawned = (args: readonly string[], env: Readonly<Record<string, string>>): ChildProcess =>
    spawn(process.execPath, [outfile, ...args], {
      cwd: ROOT,
      env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });

  async function launch(args: readonly string[], env: Readonly<Record<string, string>>): Promise<LaunchedProcess> {
    const port = await freePort();
    const child = spawned(args, { METRICS_PORT: "public", ...env, HOST: "127.0.0.1", PORT: String(port) });
    const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
    const ended = once(child, "close").then(([status]) => status as number | null);
    const output = (): string => stdout() + stderr();
    const url = `http://127.0.0.1:${port}`;
    const end = async (signal: NodeJS.Signals): Promise<number | null> => {
      child.kill(signal);
      // One attempt, which lasts as long as the process: a test that waits in vain for its end says so.
      const { status } = await until(async () => ({ status: await ended }), `${args.join(" ")} ends on ${signal}`);
      return status;
    };
    return {
      url,
      client: createFacilitatorClient({ url, timeoutMs: 15_000 }),
      pid: child.pid ?? 0,
      output,
      ended,
      untilUp: () => untilUp(child, output),
      kill: async () => void (await end("SIGKILL")),
      stop: () => end("SIGTERM"),
    };
  }

  return {
    async run(args, env) {
      const child = spawned(args, env);
      const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
      const [status] = await once(child, "close");
      return { status, stdout: stdout(), stderr: stderr() };
    },
    async start(env, roles) {
      const service = await launch(roles ? ["start", "--roles", roles] : ["start"], { ...env, LOG_LEVEL: "info" });
      await service.untilUp();
      return service;
    },
    launch,
    remove,
  };
}

async function untilUp(child: ChildProcess, output: () => string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`not up in time:\n${output()}`)), START_TIMEOUT_MS);
    const look = (): void => {
      if (!output().includes("the Facilitator is up")) return;
      clearTimeout(timer);
      resolve();
    };
    child.stdout?.on("data", look);
    const ended = (status: number | null): void => {
      clearTimeout(timer);
      reject(new Error(`ended with ${status} before it was up:\n${output()}`));
    };
    if (child.exitCode !== null) ended(child.exitCode);
    child.once("exit", ended);
    look();
  });
}

function collect(stream: NodeJS.ReadableStream | null): () => string {
  let text = "";
  stream?.on("data", (chunk: Buffer) => {
    text += chunk.toString();
  });
  return () => text;
}
