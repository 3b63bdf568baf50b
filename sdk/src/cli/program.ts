/**
 * Builds the program from the table of commands. A flag or word that looks like a key is refused without being printed:
 * other processes and the shell's history show command lines.
 */
import { type CommanderError, Command as CommandParser, Option } from "commander";
import type { Arguments, Command, FlagSpec } from "./command";
import { UsageError } from "./command-errors";
import { COMMANDS } from "./commands";
import { ENVIRONMENT } from "./environment";
import { EXIT_CODES } from "./exit-codes";
import { VERSION } from "./version";

const SECRET_NAME = /key|secret|mnemonic|seed|passw|phrase|credential|auth/i;

/** A private key, an API key, a webhook secret, or a recovery phrase. */
const SECRET_VALUE = /^(?:(?:0x)?[0-9a-f]{64}|tpk_.*|whsec_.*|bearer\s.*|(?:[a-z]{3,8}\s+){11,23}[a-z]{3,8})$/is;

const KEY_REMEDY =
  "Put it in a file that only you can read and name the file: TURNPIKE_WALLET_KEY=file:PATH (or TURNPIKE_API_KEY, TURNPIKE_WEBHOOK_SECRET).";

/** What a program does. */
export interface ProgramEffects {
  /** Prints help or the version. */
  write(text: string): void;
  run(command: Command, args: Arguments): Promise<void>;
}

/** Its parser throws UsageError, which never shows a value that looks like a key, or CommanderError after help. */
export function createProgram({ write, run }: ProgramEffects): CommandParser {
  const program = new CommandParser("npx turnpike")
    .usage("COMMAND [ARGUMENTS] [FLAGS]")
    .description("turnpike: sell and buy HTTP requests by x402 (HTTP 402 Payment Required)")
    .configureOutput({ writeOut: write, writeErr: write, outputError: () => undefined })
    .configureHelp({ helpWidth: 100, subcommandTerm: (command) => command.name() })
    .optionsGroup("Flags:")
    .version(VERSION, "--version", "print the version")
    .helpOption("-h, --help", "print this help")
    .helpCommand("help [COMMAND]", "print the help of a command")
    .showSuggestionAfterError(false)
    .enablePositionalOptions()
    .exitOverride((error) => throwUsage(error, program));
  const codes = Object.values(EXIT_CODES).map(({ code, meaning }) => [String(code), meaning] as const);
  program.addHelpText("after", () => {
    const settings = listOf(program, "\nSettings, by environment variable:", Object.entries(ENVIRONMENT));
    return [...settings, ...listOf(program, "Exit codes:", codes)].join("\n").trimEnd();
  });
  for (const command of COMMANDS) addCommand(program, command, run);
  return program;
}

function addCommand(program: CommandParser, command: Command, run: ProgramEffects["run"]): void {
  const parser = program
    .command(command.name)
    .usage([...command.words.map(({ name }) => name), "[FLAGS]"].join(" "))
    .description(command.summary)
    .optionsGroup("Flags:")
    .addHelpText("after", ["\nExamples:", ...command.examples.map((example) => `  ${example}`)].join("\n"))
    .exitOverride((error) => throwUsage(error, parser))
    .action(() => {
      refuseKeys(parser);
      return run(command, argumentsOf(command, parser));
    });
  for (const { name, about, isRest } of command.words) parser.argument(`<${name}${isRest ? "..." : ""}>`, about);
  for (const [name, spec] of Object.entries(command.flags)) {
    if (spec.value === undefined) parser.option(`--${name}`, spec.about);
    else parser.option(`--${name} <${spec.value}>`, spec.about, valuesOf(name, spec, parser), undefined);
  }
  parser.option("--json", "print JSON on standard output, errors too");
}

/** Collects the values of a flag. @throws UsageError */
function valuesOf(name: string, { value: what, isHash, isMultiple }: FlagSpec, parser: CommandParser) {
  return (value: string, before: readonly string[] = []): readonly string[] => {
    if (!isHash && looksLikeKey(value)) throw secretError(`The value of --${name} looks like a key.`);
    // The next flag, where the value was forgotten.
    if (value === "" || parser.options.some(({ long }) => long === value)) {
      throw new UsageError(`--${name} needs a value: --${name} ${what}.`, helpRemedy(parser));
    }
    if (before.length > 0 && !isMultiple) throw new UsageError(`--${name} is given twice.`, "Give it once.");
    return [...before, value];
  };
}

function argumentsOf({ words }: Command, parser: CommandParser): Arguments {
  const wordsFrom = (name: string) =>
    parser.args.slice(words.findIndex((word) => word.name === name)) as [string, ...string[]];
  const given = (flag: string): true | readonly string[] | undefined =>
    parser.getOptionValue(new Option(`--${flag}`).attributeName());
  const values = (flag: string): readonly string[] => {
    const all = given(flag);
    return all === undefined || all === true ? [] : all;
  };
  return {
    word: (name) => wordsFrom(name)[0],
    words: wordsFrom,
    value: (flag) => values(flag).at(-1),
    values,
    has: (flag) => given(flag) !== undefined,
  };
}

/** Says what is wrong in words that hold no key. @throws CommanderError itself after help, which is no error */
function throwUsage(error: CommanderError, parser: CommandParser): never {
  refuseKeys(parser);
  const [, what = ""] = /'(.*)'/s.exec(error.message) ?? [];
  const remedy = helpRemedy(parser);
  switch (error.code) {
    case "commander.unknownCommand":
      throw unknownCommand(what);
    case "commander.unknownOption":
      throw unknownFlag(what, parser);
    case "commander.optionMissingArgument": {
      const shown = what.replace(/[<>]/g, "");
      throw new UsageError(`${shown.split(" ")[0]} needs a value: ${shown}.`, remedy);
    }
    case "commander.missingArgument":
      throw new UsageError(`${what} is missing.`, remedy);
    case "commander.excessArguments": {
      const taken = parser.registeredArguments.map((word) => word.name()).join(" ") || "no arguments";
      throw new UsageError(`\`turnpike ${parser.name()}\` takes ${taken}, and got more.`, remedy);
    }
    default:
      throw error;
  }
}

const helpRemedy = (parser: CommandParser): string =>
  `See \`npx turnpike ${parser.parent ? `${parser.name()} ` : ""}--help\`.`;

const looksLikeKey = (text: string): boolean => SECRET_VALUE.test(text.trim());

function refuseKeys({ parent, args }: CommandParser): void {
  if (parent && args.some(looksLikeKey)) throw secretError("An argument looks like a key.");
}

const secretError = (message: string) =>
  new UsageError(
    `${message} Keys are never given on the command line, where other programs can read them.`,
    KEY_REMEDY,
  );

function unknownCommand(name: string): UsageError {
  // A word of another form may be a key: it is not printed.
  const shown = /^[a-z][a-z-]{0,15}$/.test(name) ? `\`${name}\` is no command.` : "The first argument is no command.";
  const names = COMMANDS.map((each) => each.name).join(", ");
  return new UsageError(shown, `The commands are ${names}. See \`npx turnpike --help\`.`);
}

function unknownFlag(text: string, parser: CommandParser): UsageError {
  const [, name = "", value = ""] = /^-*([^=]*)=?(.*)$/s.exec(text) ?? [];
  const remedy = helpRemedy(parser);
  if (SECRET_NAME.test(name) || [name, value].some(looksLikeKey)) {
    return secretError("A flag looks like it gives a key.");
  }
  const names = parser.options.map((option) => option.name());
  if (names.includes(name)) return new UsageError(`--${name} takes no value.`, remedy);
  const shown = /^[a-z][a-z-]{0,31}$/.test(name) ? `--${name}` : "A flag";
  const near = names.find((known) => name !== "" && (known.startsWith(name) || name.startsWith(known)));
  return new UsageError(`${shown} is not known.`, near === undefined ? remedy : `Did you mean --${near}? ${remedy}`);
}

/** Writes rows under a heading as the parser writes its own lists. */
function listOf(program: CommandParser, heading: string, rows: readonly (readonly [string, string])[]): string[] {
  const help = program.createHelp();
  const width = Math.max(...rows.map(([term]) => term.length));
  const items = rows.map(([term, about]) => help.formatItem(term, width, about, help));
  return help.formatItemList(heading, items, help);
}

/** Returns the help of the program, or of one command. @throws Error for a command that the program does not have */
export function helpOf(name?: string): string {
  const parts: string[] = [];
  const program = createProgram({ write: (part) => void parts.push(part), run: async () => undefined });
  const shown = name === undefined ? program : program.commands.find((command) => command.name() === name);
  if (!shown) throw new Error(`${name} is no command`);
  shown.outputHelp();
  return parts.join("");
}
