/**
 * Starts the sandbox, publishes its addresses, and keeps it until it is interrupted. `npm start` and the package's
 * command share this. It imports nothing heavy, so that the first line is printed at once.
 */
import type { Documentation } from "./documentation";
import { AlreadyRunning, lockFolder } from "./folder-lock";
import { watchInterruption } from "./interruption";
import { type SandboxOptions, WrongOption } from "./options";
import { choosePorts } from "./ports";
import { type Progress, reportProgress } from "./progress";
import { removeState } from "./running";
import type { World, WorldOptions } from "./world";

export interface SandboxRun {
  readonly options: Pick<SandboxOptions, "chainId" | "secondChainId" | "folder" | "ports" | "exit">;
  /** what starts it, as in `npm start --`, for remedies */
  readonly command: string;
  /** receives whole lines */
  write(line: string): void;
  /** what differs from the defaults of a world */
  readonly world?: Pick<WorldOptions, "startChain" | "blockMs">;
  /** folder of the documentation; default: what `npm run docs` builds */
  readonly site?: string;
  /** Builds what the parts need, before they load. */
  prepare?(progress: Progress, signal: AbortSignal): Promise<void>;
  /** Loads what `onUp` needs, before anything runs that would wait meanwhile. */
  load?(): void;
  /** Called once everything runs. @returns what went wrong, or undefined when it was interrupted */
  onUp(stage: Stage): Promise<readonly string[] | undefined>;
}

/** The running sandbox. */
export interface Stage {
  readonly world: World;
  readonly documentation: Documentation;
  readonly progress: Progress;
  readonly signal: AbortSignal;
  /** Starts a second world, which keeps nothing of the first one. */
  startApart(): Promise<World>;
}

const STOP_TIMEOUT_MS = 20_000;

/** The status that a shell reports for a program ended by Ctrl-C. */
const INTERRUPTED = 130;

/** Whether the message is meant for the user as it is, without a stack. */
export const isUsersMatter = (error: unknown): boolean =>
  error instanceof WrongOption || error instanceof AlreadyRunning;

/** @returns the exit code. @throws WrongOption, AlreadyRunning */
export async function runSandbox(run: SandboxRun): Promise<number> {
  const { options, command, write, prepare } = run;
  const { chainId, secondChainId, folder } = options;
  const { signal, interrupted } = watchInterruption(() => process.exit(1));
  const lock = await lockFolder(folder, command);
  // However this process ends, it leaves no state in the folder that would mislead the next one.
  process.once("exit", () => lock.release());
  const progress = reportProgress(write);
  const ports = await choosePorts(options.ports, progress.say);
  if (prepare) await orExit(prepare(progress, signal));
  // Timers do not run while a module loads, so each part is reported on its own.
  progress.say("Load the chain's part ...");
  require("./chain");
  progress.say("Load the Facilitator ...");
  require("./facilitator");
  progress.say("Load the provider and the agents ...");
  const { startWorld } = require("./world") as typeof import("./world");
  const { serveDocumentation } = require("./documentation") as typeof import("./documentation");
  run.load?.();
  // Stopping the world makes pending work fail, also inside libraries. Before that, an error is a real one.
  process.on("unhandledRejection", (error) => {
    if (!signal.aborted) throw error;
  });
  const given = { ...run.world, chainId, secondChainId, folder, isSpared: true };
  const onStart = (part: string): void => progress.say(`Start ${part} ...`);
  const starting = startWorld({ ...given, ports, withInbox: true, onStart });
  const world = await orExit(progress.during("Start the parts", starting));
  let documentation: Documentation | undefined;
  try {
    documentation = await serveDocumentation(ports.documentation, run.site);
    const stage = { world, documentation, progress, signal, startApart: () => startWorld(given) };
    const failures = await Promise.race([run.onUp(stage), interrupted]);
    if (failures && !options.exit) await interrupted;
    return failures?.length ? 1 : 0;
  } finally {
    write("\nStopping.");
    removeState(folder);
    const timer = setTimeout(() => {
      process.stderr.write(`The sandbox did not stop within ${STOP_TIMEOUT_MS / 1_000} s: its processes are killed.\n`);
      process.exit(1);
    }, STOP_TIMEOUT_MS);
    await documentation?.stop();
    await world.stop();
    clearTimeout(timer);
    lock.release();
  }

  /** Exits on an interruption while `work` runs: nothing is running yet that must be stopped in order. */
  async function orExit<T>(work: Promise<T>): Promise<T> {
    let isStarting = true;
    void interrupted.then(() => {
      if (!isStarting) return;
      write("\nStopping.");
      process.exit(INTERRUPTED);
    });
    const result = await work;
    isStarting = false;
    return result;
  }
}
