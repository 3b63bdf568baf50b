/**
 * Runs everything on this machine: a chain, the contracts, the Facilitator, a provider, agents. It walks through all
 * flows once, prints what happens, and stays up:
 *   npm start [-- --exit] [-- --port 9000]
 * `npm start -- --help` lists the options. It imports nothing heavy, so that the first line is printed at once.
 */
import { HELP, readOptions } from "./sandbox/options";
import { isUsersMatter, runSandbox } from "./sandbox/run";

const write = (line: string): void => void process.stdout.write(`${line}\n`);

async function main(): Promise<number> {
  const options = readOptions(process.argv.slice(2), process.env);
  if (options.wantsHelp) {
    write(HELP);
    return 0;
  }
  const { exit, folder, verbose: isVerbose } = options;
  return runSandbox({
    options,
    command: "npm start --",
    write,
    ...(options.prepare && {
      prepare: (progress, signal) =>
        (require("./sandbox/prepare") as typeof import("./sandbox/prepare")).prepare(progress, signal),
    }),
    load: () => void walks(),
    async onUp({ progress, ...stage }) {
      progress.say("Walk through every flow:");
      const failures = await walks().walkAll({ ...stage, folder, isVerbose });
      if (failures && !exit) {
        write(`The sandbox stays up until Ctrl-C. Watch it at ${stage.world.facilitator.url}/`);
        write("A year in a minute: npm run sandbox -- scenario happy-year");
      }
      return failures;
    },
  });
}

const walks = () => require("./sandbox/walk/all") as typeof import("./sandbox/walk/all");

main()
  .catch((error: Error) => {
    process.stderr.write(`${isUsersMatter(error) ? error.message : (error.stack ?? error.message)}\n`);
    return 1;
  })
  // Everything is stopped; an agent's call that still waits for an outcome would keep the process alive for minutes.
  .then((code) => process.exit(code));
