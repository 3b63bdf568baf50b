/**
 * Controls the sandbox that `npm start` runs:
 *   npm run sandbox -- advance 30d           moves the clock (s, m, h, d), and waits for what becomes due
 *   npm run sandbox -- scenario happy-year   plays months in seconds
 *   npm run sandbox -- inbox                 lists received webhooks, oldest first
 *   npm run sandbox -- --chains 2            starts a sandbox, with the options of `npm start`
 * `--folder PATH` or TURNPIKE_SANDBOX_FOLDER selects the sandbox of another folder, and `--network NAME` one of two chains.
 */
import { type Command, readCommand } from "./sandbox/command";
import type { Delivered } from "./sandbox/inbox-page";
import { moveClock } from "./sandbox/move-clock";
import { readOptions } from "./sandbox/options";
import { readState } from "./sandbox/running";
import { play, SCENARIOS, type ScenarioName } from "./sandbox/scenarios";
import type { SandboxState } from "./sandbox/state";

const NAMES = Object.keys(SCENARIOS) as ScenarioName[];

const say = (line: string): boolean => process.stdout.write(`${line}\n`);

const HELP = `Usage: npm run sandbox -- COMMAND [--folder PATH] [--network NAME]
  advance 30d      move the clock (s, m, h, d) and wait for what becomes due
  scenario NAME    play a story of months in seconds: ${NAMES.join(", ")}
  inbox            list the webhooks that arrived, oldest first
  --network NAME   of two chains, the one whose clock moves and that the story is played on; default: the first
With options of npm start and no command it starts a sandbox: npm run sandbox -- --chains 2`;

async function run(command: Command<ScenarioName>): Promise<void> {
  if (command.kind === "help") {
    say(HELP);
    return;
  }
  const { folder } = readOptions(command.folder ? ["--folder", command.folder] : [], process.env);
  const state = stateOn(await readState(folder), command.network);
  switch (command.kind) {
    case "advance": {
      const { facilitatorUrl, network, providerApiKey: apiKey } = state;
      await moveClock({ facilitatorUrl, network, apiKey }, command.seconds, ({ nowSec, targetSec }) =>
        say(`${new Date(nowSec * 1_000).toISOString()}${nowSec < targetSec ? " ..." : ""}`),
      );
      return;
    }
    case "scenario":
      return play(command.scenario, state, say);
    case "inbox":
      for (const one of ((await (await fetch(`${state.inboxUrl}/`)).json()) as Delivered[]).reverse())
        say(
          `${new Date(one.occurredAt * 1_000).toISOString()} ${one.isVerified ? "verified" : "FORGED"} ${one.type} ${one.id}`,
        );
      return;
  }
}

/** Returns the state with the facts of the named chain in place of the first one's. */
function stateOn(state: SandboxState, network: string | undefined): SandboxState {
  const chains = state.chains ?? [state];
  const chain = network === undefined ? state : chains.find((each) => each.network === network);
  if (chain) return { ...state, ...chain };
  throw new Error(`--network is ${network}: use ${chains.map((each) => each.network).join(" or ")}.`);
}

async function main(): Promise<void> {
  const command = readCommand(process.argv.slice(2), NAMES);
  if (command.kind !== "start") {
    await run(command);
    process.exit(0);
  }
  // As npm start does: it compiles first, and stays up.
  process.argv.push("--prepare");
  require("./sandbox");
}

// A reader such as `head` may have left.
process.stdout.on("error", () => process.exit(0));
main().catch((error: Error) => {
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
});
