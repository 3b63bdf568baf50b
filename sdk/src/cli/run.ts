import { CommanderError } from "commander";
import { COMMANDS } from "./commands";
import { variable } from "./environment";
import { EXIT_CODES } from "./exit-codes";
import type { CliIo } from "./io";
import { createOutput, printError } from "./output";
import { createProgram } from "./program";
import { withCliRemedy } from "./remedies";

/**
 * Runs `turnpike` with these arguments. Never throws and never ends the process.
 * @returns the exit code, one of EXIT_CODES
 */
export async function runCli(argv: readonly string[], io: CliIo): Promise<number> {
  const words = argv.includes("--") ? argv.slice(0, argv.indexOf("--")) : argv;
  const isStream = COMMANDS.some(({ name, isStream = false }) => name === argv[0] && isStream);
  const output = createOutput(io, { isJson: words.includes("--json"), isStream });
  let exitCode: number = EXIT_CODES.done.code;
  const program = createProgram({
    write: (text) => io.stdout(text),
    async run(command, args) {
      exitCode = await command.run({ args, io, output });
    },
  });
  try {
    await program.parseAsync(argv, { from: "user" });
    return exitCode;
  } catch (error) {
    // What it shows instead of an error: help or the version.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT_CODES.done.code : EXIT_CODES.usage.code;
    return printError(output, withCliRemedy(error), variable(io, "TURNPIKE_DEBUG") === "1");
  }
}
