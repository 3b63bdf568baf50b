/**
 * Talks to the sandbox that `npm start` runs:
 *   npm run sandbox -- advance 30d           moves the clock (s, m, h, d), and waits for what becomes due
 *   npm run sandbox -- scenario happy-year   tells a story of months in seconds; without a name, lists them
 *   npm run sandbox -- inbox                 the webhooks that arrived, oldest first
 */
import type { Delivered } from "./sandbox/inbox";
import { moveClock } from "./sandbox/move-clock";
import { readState } from "./sandbox/running";
import { play, SCENARIOS, type ScenarioName } from "./sandbox/scenarios";

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };
const say = (line: string): boolean => process.stdout.write(`${line}\n`);

async function main([command, argument]: readonly string[]): Promise<void> {
  const state = readState();
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
    default:
      throw new Error("Commands: advance 30d, scenario NAME, inbox.");
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
