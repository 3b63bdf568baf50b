/**
 * Runs everything on this machine: a chain, the contracts, the Facilitator, a provider, agents. It walks through all
 * flows once, prints what happens, and stays up:
 *   npm start [-- --exit] [-- --port 9000]
 * `npm start -- --help` lists the options. It imports nothing heavy, so that the first line is printed at once.
 */
import type { Documentation } from "./sandbox/documentation";
import { AlreadyRunning, lockFolder } from "./sandbox/folder-lock";
import { type Interruption, watchInterruption } from "./sandbox/interruption";
import { HELP, readOptions, type SandboxOptions, WrongOption } from "./sandbox/options";
import { choosePorts } from "./sandbox/ports";
import { reportProgress } from "./sandbox/progress";
import { removeState } from "./sandbox/running";

const STOP_TIMEOUT_MS = 20_000;

/** The status that a shell reports for a program ended by Ctrl-C. */
const INTERRUPTED = 130;

const write = (line: string): void => void process.stdout.write(`${line}\n`);

async function main(): Promise<number> {
  const options = readOptions(process.argv.slice(2), process.env);
  if (options.wantsHelp) {
    write(HELP);
    return 0;
  }
  const interruption = watchInterruption(() => process.exit(1));
  const lock = await lockFolder(options.folder);
  // However this process ends, it leaves no state in the folder that would mislead the next one.
  process.once("exit", () => lock.release());
  return run(options, interruption);
}

async function run(options: SandboxOptions, { signal, interrupted }: Interruption): Promise<number> {
  const { chainId, secondChainId, folder } = options;
  const progress = reportProgress(write);
  const ports = await choosePorts(options.ports, progress.say);
  if (options.prepare) {
    const { prepare } = require("./sandbox/prepare") as typeof import("./sandbox/prepare");
    await orExit(prepare(progress, signal));
  }
  // Timers do not run while a module loads, so each part is reported on its own.
  progress.say("Load the chain's part ...");
  require("./sandbox/chain");
  progress.say("Load the Facilitator ...");
  require("./sandbox/facilitator");
  progress.say("Load the provider and the agents ...");
  const { startWorld } = require("./sandbox/world") as typeof import("./sandbox/world");
  const { serveDocumentation } = require("./sandbox/documentation") as typeof import("./sandbox/documentation");
  const { walkAll } = require("./sandbox/walk/all") as typeof import("./sandbox/walk/all");
  // Stopping the world makes pending work fail, also inside libraries. Before that, an error is a real one.
  process.on("unhandledRejection", (error) => {
    if (!signal.aborted) throw error;
  });
  const given = { chainId, secondChainId, folder, isSpared: true };
  const onStart = (part: string): void => progress.say(`Start ${part} ...`);
  const starting = startWorld({ ...given, ports, withInbox: true, onStart });
  const world = await orExit(progress.during("Start the parts", starting));
  let documentation: Documentation | undefined;
  try {
    documentation = await serveDocumentation(ports.documentation);
    progress.say("Walk through every flow:");
    const failures = await Promise.race([
      walkAll({ world, startApart: () => startWorld(given), folder, documentation, signal }),
      interrupted,
    ]);
    if (failures && !options.exit) {
      write(`The sandbox stays up until Ctrl-C. Watch it at ${world.facilitator.url}/`);
      write("A year in a minute: npm run sandbox -- scenario happy-year");
      await interrupted;
    }
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

main()
  .catch((error: Error) => {
    const isUsersMatter = error instanceof WrongOption || error instanceof AlreadyRunning;
    process.stderr.write(`${isUsersMatter ? error.message : (error.stack ?? error.message)}\n`);
    return 1;
  })
  // Everything is stopped; an agent's call that still waits for an outcome would keep the process alive for minutes.
  .then((code) => process.exit(code));
