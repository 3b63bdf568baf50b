/** Defines what a command is: its words and flags, which make the parser, the help and the reference, and its work. */
import type { CliIo } from "./io";
import type { Output } from "./output";

/** One flag of a command. */
export interface FlagSpec {
  /** what its value is called in the help; absent for a flag without a value */
  readonly value?: string;
  readonly about: string;
  /** whether it may be given several times */
  readonly isMultiple?: boolean;
  /** whether its value may look like a key: 0x and 64 hex digits */
  readonly isHash?: boolean;
}

/** One word after the command's name. */
export interface ArgumentSpec {
  readonly name: string;
  readonly about: string;
  /** whether every further word is its own too; only the last one may */
  readonly isRest?: boolean;
}

/** The arguments of one run, by name. */
export interface Arguments {
  /** Returns an argument. */
  word(name: string): string;
  /** Returns an argument with every further word. */
  words(name: string): readonly [string, ...string[]];
  /** Returns the last value of a flag. */
  value(flag: string): string | undefined;
  /** Returns every value of a flag. */
  values(flag: string): readonly string[];
  /** Returns whether a flag is given. */
  has(flag: string): boolean;
}

/** What a command works with. */
export interface CommandContext {
  readonly args: Arguments;
  readonly io: CliIo;
  readonly output: Output;
}

/** One command of `npx turnpike`. */
export interface Command {
  readonly name: string;
  readonly summary: string;
  readonly words: readonly ArgumentSpec[];
  readonly flags: Readonly<Record<string, FlagSpec>>;
  readonly examples: readonly string[];
  /** whether `--json` prints one document in each line, as results arrive */
  readonly isStream?: boolean;
  /** @returns the exit code */
  run(context: CommandContext): Promise<number>;
}
