/**
 * Runs everything on this machine: a chain, the contracts, the Facilitator, a provider, agents. Walks all flows once,
 * telling what happens, and stays up:   npm start [-- --exit] [-- --port 9000]
 * `npm start -- --help` lists the options. Imports nothing heavy, so that the first line is printed at once.
 */
import { AlreadyRunning, lockFolder } from "./sandbox/folder-lock";
import { type Interruption, watchInterruption } from "./sandbox/interruption";
import { HELP, readOptions, type SandboxOptions, WrongOption } from "./sandbox/options";
import { choosePorts } from "./sandbox/ports";
import { reportProgress } from "./sandbox/progress";
import { removeState } from "./sandbox/running";

const STOP_TIMEOUT_MS = 20_000;

/** What a shell reports of a program that ended by Ctrl-C. */
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
  // However this process ends, it leaves nothing in the folder that would mislead the next one.
  process.once("exit", () => lock.release());
  return run(options, interruption);
}

async function run(options: SandboxOptions, { signal, interrupted }: Interruption): Promise<number> {
  const { chainId, folder } = options;
  const progress = reportProgress(write);
  const ports = await choosePorts(options.ports, progress.say);
  if (options.prepare) {
    const { prepare } = require("./sandbox/prepare") as typeof import("./sandbox/prepare");
    await orExit(prepare(progress, signal));
  }
  // Loading does not let a timer run, so each part is reported on its own.
  progress.say("Load the chain's part ...");
  require("./sandbox/chain");
  progress.say("Load the Facilitator ...");
  require("./sandbox/facilitator");
  progress.say("Load the provider and the agents ...");
  const { startWorld } = require("./sandbox/world") as typeof import("./sandbox/world");
  const { walkAll } = require("./sandbox/walk/all") as typeof import("./sandbox/walk/all");
  // What is under way when the world is stopped fails by that, in libraries too; until then a fault is a fault.
  process.on("unhandledRejection", (error) => {
    if (!signal.aborted) throw error;
  });
  const given = { chainId, folder, isSpared: true };
  const onStart = (part: string): void => progress.say(`Start ${part} ...`);
  const starting = startWorld({ ...given, ports, withInbox: true, onStart });
  const world = await orExit(progress.during("Start the parts", starting));
  try {
    progress.say("Walk through every flow:");
    const failures = await Promise.race([
      walkAll({ world, startApart: () => startWorld(given), folder, signal }),
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
    await world.stop();
    clearTimeout(timer);
  }

  /** Exits at an interruption while `work` lasts: so far nothing runs that has to be stopped in order. */
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
  // Everything is stopped; a call of an agent that still waits for an outcome would keep the process for minutes.
  .then((code) => process.exit(code));
