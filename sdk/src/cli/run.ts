/** Runs one command line: finds the command, reads its arguments, prints its result or its error. */
import { readArguments } from "./arguments";
import type { Command } from "./command";
import { UsageError } from "./command-errors";
import { COMMANDS } from "./commands";
import { variable } from "./environment";
import { EXIT_CODES } from "./exit-codes";
import { commandHelp, programHelp } from "./help";
import type { CliIo } from "./io";
import { createOutput, printError } from "./output";
import { withCliRemedy } from "./remedies";
import { VERSION } from "./version";

/**
 * Runs `turnpike` with these arguments. Never throws and never ends the process.
 * @returns the exit code, one of EXIT_CODES
 */
export async function runCli(argv: readonly string[], io: CliIo): Promise<number> {
  const [name, ...rest] = argv;
  const words = rest.includes("--") ? rest.slice(0, rest.indexOf("--")) : rest;
  const wantsHelp = words.some((word) => word === "--help" || word === "-h");
  if (name === undefined || name === "help" || name === "--help" || name === "-h") {
    io.stdout(programHelp(COMMANDS));
    return name === undefined ? EXIT_CODES.usage.code : EXIT_CODES.done.code;
  }
  if (name === "--version") {
    io.stdout(`${VERSION}\n`);
    return EXIT_CODES.done.code;
  }
  const command = COMMANDS.find((each) => each.name === name);
  const output = createOutput(io, { isJson: words.includes("--json"), isStream: command?.isStream ?? false });
  const isDebug = variable(io, "TURNPIKE_DEBUG") === "1";
  if (!command) return printError(output, unknownCommand(name), isDebug);
  if (wantsHelp) {
    io.stdout(commandHelp(command));
    return EXIT_CODES.done.code;
  }
  try {
    return await command.run({ args: readArguments(command, rest), io, output });
  } catch (error) {
    return printError(output, withCliRemedy(error), isDebug);
  }
}

function unknownCommand(name: string): UsageError {
  // A word of another form may be a key: it is not printed.
  const shown = /^[a-z][a-z-]{0,15}$/.test(name) ? `\`${name}\` is no command.` : "The first argument is no command.";
  const names = COMMANDS.map((each: Command) => each.name).join(", ");
  return new UsageError(shown, `The commands are ${names}. See \`npx turnpike --help\`.`);
}
