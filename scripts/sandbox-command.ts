/**
 * Controls the sandbox that `npm start` runs:
 *   npm run sandbox -- advance 30d           moves the clock (s, m, h, d), and waits for what becomes due
 *   npm run sandbox -- scenario happy-year   plays months in seconds; without a name, lists the scenarios
 *   npm run sandbox -- inbox                 lists received webhooks, oldest first
 * `--folder PATH` or TURNPIKE_SANDBOX_FOLDER selects the sandbox of another folder.
 */
import { parseArgs } from "node:util";
import type { Delivered } from "./sandbox/inbox-page";
import { moveClock } from "./sandbox/move-clock";
import { readOptions } from "./sandbox/options";
import { readState } from "./sandbox/running";
import { play, SCENARIOS, type ScenarioName } from "./sandbox/scenarios";

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };

const say = (line: string): boolean => process.stdout.write(`${line}\n`);

const HELP = `Usage: npm run sandbox -- COMMAND [--folder PATH]
  advance 30d      move the clock (s, m, h, d) and wait for what becomes due
  scenario NAME    play a story of months in seconds: ${Object.keys(SCENARIOS).join(", ")}
  inbox            list the webhooks that arrived, oldest first`;

async function main(args: readonly string[]): Promise<void> {
  const { positionals, values } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { folder: { type: "string" }, help: { type: "boolean", short: "h" } },
  });
  const [command, argument] = positionals;
  if (values.help || command === "help") {
    say(HELP);
    return;
  }
  if (!["advance", "scenario", "inbox"].includes(command ?? "")) throw new Error(HELP);
  const { folder } = readOptions(values.folder ? ["--folder", values.folder] : [], process.env);
  const state = await readState(folder);
  switch (command) {
    case "advance": {
      const { facilitatorUrl, providerApiKey: apiKey } = state;
      await moveClock({ facilitatorUrl, apiKey }, secondsOf(argument), ({ nowSec, targetSec }) =>
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

function secondsOf(text = ""): number {
  const [, count, unit = ""] = /^(\d{1,5})([smhd])$/.exec(text) ?? [];
  if (count === undefined) throw new Error("advance takes a time such as 30d, 12h, 90m or 45s.");
  return Number(count) * (UNITS[unit] ?? 1);
}

main(process.argv.slice(2)).then(
  () => process.exit(0),
  (error: Error) => {
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  },
);
