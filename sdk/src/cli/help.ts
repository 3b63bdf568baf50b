/** Writes the help of the program and of each command. The page docs/reference/cli.md has the same text in the site. */
import { COMMON_FLAGS, type Command, type FlagSpec } from "./command";
import { ENVIRONMENT } from "./environment";
import { EXIT_CODES } from "./exit-codes";

const WIDTH = 100;

/** Returns the help of the program: its commands, settings and exit codes. */
export function programHelp(commands: readonly Command[]): string {
  return [
    "turnpike: sell and buy HTTP requests by x402 (HTTP 402 Payment Required)",
    "",
    "Usage: npx turnpike COMMAND [ARGUMENTS] [FLAGS]",
    "",
    "Commands:",
    ...table(commands.map(({ name, summary }) => [name, summary])),
    "",
    "Each command takes --json and --help. `npx turnpike COMMAND --help` lists its flags. --version prints the version.",
    "",
    "Settings, by environment variable:",
    ...table(Object.entries(ENVIRONMENT)),
    "",
    "Exit codes:",
    ...table(Object.values(EXIT_CODES).map(({ code, meaning }) => [String(code), meaning])),
    "",
  ].join("\n");
}

/** Returns the help of one command. */
export function commandHelp(command: Command): string {
  const words = command.words.map(({ name }) => name);
  const flags = Object.entries({ ...command.flags, ...COMMON_FLAGS });
  return [
    `turnpike ${command.name}: ${command.summary}`,
    "",
    `Usage: npx turnpike ${[command.name, ...words].join(" ")} [FLAGS]`,
    ...(command.words.length === 0 ? [] : ["", "Arguments:"]),
    ...table(command.words.map(({ name, about }) => [name, about])),
    "",
    "Flags:",
    ...table(flags.map(([name, spec]) => [flagText(name, spec), spec.about])),
    "",
    "Examples:",
    ...command.examples.map((example) => `  ${example}`),
    "",
  ].join("\n");
}

const flagText = (name: string, { value, isMultiple }: FlagSpec): string =>
  `--${name}${value === undefined ? "" : ` ${value}`}${isMultiple ? " ..." : ""}`;

/** Aligns rows of two columns, and wraps the second one. */
function table(rows: readonly (readonly [string, string])[]): string[] {
  const left = Math.max(0, ...rows.map(([name]) => name.length)) + 2;
  return rows.flatMap(([name, about]) => {
    const [first = "", ...rest] = wrap(about, WIDTH - left - 2);
    return [`  ${name.padEnd(left)}${first}`, ...rest.map((line) => `  ${" ".repeat(left)}${line}`)];
  });
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + word.length + 1 > width) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line];
}
