/** Reads what `npm run sandbox` is asked to do, before anything is sent to a sandbox. */
import { parseArgs } from "node:util";
import { firstSentence, WrongOption } from "./options";

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };

const COMMANDS: readonly string[] = ["advance", "scenario", "inbox"];

/** Options of a command. Any other option is one of `npm start`. */
const OPTIONS: readonly string[] = ["folder", "network", "help", "h"];

const REMEDY = "Run npm run sandbox -- --help to see the commands.";

export type Command<Scenario extends string> = { readonly folder?: string; readonly network?: string } & (
  | { readonly kind: "help" | "start" | "inbox" }
  | { readonly kind: "advance"; readonly seconds: number }
  | { readonly kind: "scenario"; readonly scenario: Scenario }
);

/**
 * @param scenarios the names that exist
 * @throws WrongOption with a sentence for the user
 */
export function readCommand<Scenario extends string>(
  args: readonly string[],
  scenarios: readonly Scenario[],
): Command<Scenario> {
  if (isStart(args)) return { kind: "start" };
  const { positionals, values } = parsed(args);
  const { help, ...target } = values;
  const [command = "help", argument, extra] = positionals;
  if (help || command === "help") return { kind: "help" };
  if (!COMMANDS.includes(command)) throw new WrongOption(`There is no command "${command}". ${REMEDY}`);
  const unexpected = command === "inbox" ? argument : extra;
  if (unexpected !== undefined) throw new WrongOption(`Unexpected argument "${unexpected}" of ${command}. ${REMEDY}`);
  switch (command) {
    case "inbox":
      return { ...target, kind: "inbox" };
    case "advance":
      return { ...target, kind: "advance", seconds: secondsOf(argument) };
    default:
      return { ...target, kind: "scenario", scenario: scenarioOf(argument, scenarios) };
  }
}

/** Returns whether the arguments are options of `npm start` and no command. */
function isStart(args: readonly string[]): boolean {
  const { positionals, tokens } = parseArgs({ args: [...args], strict: false, allowPositionals: true, tokens: true });
  const names = tokens.flatMap((token) => (token.kind === "option" ? [token.name] : []));
  return !COMMANDS.includes(positionals[0] ?? "") && names.some((name) => !OPTIONS.includes(name));
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: { folder: { type: "string" }, network: { type: "string" }, help: { type: "boolean", short: "h" } },
    });
  } catch (error) {
    throw new WrongOption(`${firstSentence(error as Error)}. ${REMEDY}`);
  }
}

function secondsOf(text: string | undefined): number {
  const [, count, unit = ""] = /^(\d{1,5})([smhd])$/.exec(text ?? "") ?? [];
  if (count !== undefined) return Number(count) * (UNITS[unit] ?? 1);
  throw new WrongOption(
    `advance takes a time such as 30d, 12h, 90m or 45s${text === undefined ? "" : `, not "${text}"`}.`,
  );
}

function scenarioOf<Scenario extends string>(text: string | undefined, scenarios: readonly Scenario[]): Scenario {
  const found = scenarios.find((name) => name === text);
  if (found) return found;
  throw new WrongOption(`scenario takes one of ${scenarios.join(", ")}${text === undefined ? "" : `, not "${text}"`}.`);
}
