/**
 * Controls the sandbox that `npm start` runs:
 *   npm run sandbox -- advance 30d           moves the clock (s, m, h, d), and waits for what becomes due
 *   npm run sandbox -- scenario happy-year   plays months in seconds; without a name, lists the scenarios
 *   npm run sandbox -- inbox                 lists received webhooks, oldest first
 *   npm run sandbox -- --chains 2            starts a sandbox, with the options of `npm start`
 * `--folder PATH` or TURNPIKE_SANDBOX_FOLDER selects the sandbox of another folder, and `--network NAME` one of two chains.
 */
import { parseArgs } from "node:util";
import type { Delivered } from "./sandbox/inbox-page";
import { moveClock } from "./sandbox/move-clock";
import { readOptions } from "./sandbox/options";
import { readState } from "./sandbox/running";
import { play, SCENARIOS, type ScenarioName } from "./sandbox/scenarios";
import type { SandboxState } from "./sandbox/state";

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };

const COMMANDS: readonly string[] = ["advance", "scenario", "inbox"];

const say = (line: string): boolean => process.stdout.write(`${line}\n`);

const HELP = `Usage: npm run sandbox -- COMMAND [--folder PATH] [--network NAME]
  advance 30d      move the clock (s, m, h, d) and wait for what becomes due
  scenario NAME    play a story of months in seconds: ${Object.keys(SCENARIOS).join(", ")}
  inbox            list the webhooks that arrived, oldest first
  --network NAME   of two chains, the one whose clock moves and that the story is played on; default: the first
Without a command it starts a sandbox, with the options of npm start: npm run sandbox -- --chains 2`;

/** Returns whether the arguments are options of `npm start` and no command. */
function isStart(args: readonly string[]): boolean {
  const { positionals, tokens } = parseArgs({ args: [...args], strict: false, allowPositionals: true, tokens: true });
  const names = tokens.flatMap((token) => (token.kind === "option" ? [token.name] : []));
  return (
    !COMMANDS.includes(positionals[0] ?? "") && names.some((name) => !["folder", "network", "help", "h"].includes(name))
  );
}

async function main(args: readonly string[]): Promise<void> {
  const { positionals, values } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { folder: { type: "string" }, network: { type: "string" }, help: { type: "boolean", short: "h" } },
  });
  const [command, argument] = positionals;
  if (values.help || command === "help") {
    say(HELP);
    return;
  }
  if (!COMMANDS.includes(command ?? "")) throw new Error(HELP);
  const { folder } = readOptions(values.folder ? ["--folder", values.folder] : [], process.env);
  const state = stateOn(await readState(folder), values.network);
  switch (command) {
    case "advance": {
      const { facilitatorUrl, network, providerApiKey: apiKey } = state;
      await moveClock({ facilitatorUrl, network, apiKey }, secondsOf(argument), ({ nowSec, targetSec }) =>
        say(`${new Date(nowSec * 1_000).toISOString()}${nowSec < targetSec ? " ..." : ""}`),
      );
      return;
    }
    case "scenario":
      if (argument !== undefined && argument in SCENARIOS) return play(argument as ScenarioName, state, say);
      throw new Error(`Scenarios: ${Object.keys(SCENARIOS).join(", ")}.`);
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

function secondsOf(text = ""): number {
  const [, count, unit = ""] = /^(\d{1,5})([smhd])$/.exec(text) ?? [];
  if (count === undefined) throw new Error("advance takes a time such as 30d, 12h, 90m or 45s.");
  return Number(count) * (UNITS[unit] ?? 1);
}

const given = process.argv.slice(2);
if (isStart(given)) {
  // As npm start does: it compiles first, and stays up.
  process.argv.push("--prepare");
  require("./sandbox");
} else {
  main(given).then(
    () => process.exit(0),
    (error: Error) => {
      process.stderr.write(`${error.message}\n`);
      process.exit(1);
    },
  );
}
