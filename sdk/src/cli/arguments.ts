/**
 * Reads a command line. A flag or word that looks like a key is refused without being printed: other processes and the
 * shell's history show command lines.
 */
import { parseArgs } from "node:util";
import { type Arguments, COMMON_FLAGS, type Command, type FlagSpec } from "./command";
import { UsageError } from "./command-errors";

const SECRET_NAME = /key|secret|mnemonic|seed|passw|phrase|credential|auth/i;

/** A private key, an API key, a webhook secret, or a recovery phrase. */
const SECRET_VALUE = /^(?:(?:0x)?[0-9a-f]{64}|tpk_.*|whsec_.*|bearer\s.*|(?:[a-z]{3,8}\s+){11,23}[a-z]{3,8})$/is;

const KEY_REMEDY =
  "Put it in a file that only you can read and name the file: TURNPIKE_WALLET_KEY=file:PATH (or TURNPIKE_API_KEY, TURNPIKE_WEBHOOK_SECRET).";

/** @throws UsageError that names the argument and never prints a value that looks like a key */
export function readArguments(command: Command, argv: readonly string[]): Arguments {
  const flags = { ...command.flags, ...COMMON_FLAGS };
  const helpRemedy = `See \`npx turnpike ${command.name} --help\`.`;
  const given = new Map<string, string[]>();
  const words: string[] = [];
  for (const token of tokensOf(flags, argv)) {
    if (token.kind === "option-terminator") continue;
    if (token.kind === "positional") {
      if (SECRET_VALUE.test(token.value.trim())) throw secretError("An argument looks like a key.");
      words.push(token.value);
      continue;
    }
    const { name } = token;
    const spec = Object.hasOwn(flags, name) ? flags[name] : undefined;
    if (!spec) throw unknownFlag(name, flags, helpRemedy);
    given.set(name, [...(given.get(name) ?? []), flagValue(name, spec, token, helpRemedy)]);
    if ((given.get(name)?.length ?? 0) > 1 && !spec.isMultiple) {
      throw new UsageError(`--${name} is given twice.`, "Give it once.");
    }
  }
  if (words.length > command.words.length && !command.words.at(-1)?.isRest) {
    throw new UsageError(`\`turnpike ${command.name}\` takes ${wordsText(command)}, and got more.`, helpRemedy);
  }
  const wordsFrom = (name: string): readonly [string, ...string[]] => {
    const [word, ...more] = words.slice(command.words.findIndex((known) => known.name === name));
    if (word === undefined) throw new UsageError(`${name} is missing.`, helpRemedy);
    return [word, ...more];
  };
  return {
    word: (name) => wordsFrom(name)[0],
    words: wordsFrom,
    value: (flag) => given.get(flag)?.at(-1),
    values: (flag) => given.get(flag) ?? [],
    has: (flag) => given.has(flag),
  };
}

function tokensOf(flags: Readonly<Record<string, FlagSpec>>, argv: readonly string[]) {
  const options = Object.fromEntries(
    Object.entries(flags).map(([name, { value }]) => [
      name,
      { type: value === undefined ? ("boolean" as const) : ("string" as const), multiple: true },
    ]),
  );
  return parseArgs({ args: [...argv], options, strict: false, allowPositionals: true, tokens: true }).tokens;
}

function flagValue(
  name: string,
  spec: FlagSpec,
  token: { readonly value?: string | undefined; readonly inlineValue?: boolean | undefined },
  helpRemedy: string,
): string {
  const { value, inlineValue } = token;
  if (value !== undefined && !spec.isHash && SECRET_VALUE.test(value.trim())) {
    throw secretError(`The value of --${name} looks like a key.`);
  }
  if (spec.value === undefined) {
    if (value !== undefined) throw new UsageError(`--${name} takes no value.`, helpRemedy);
    return "";
  }
  const isNextFlag = inlineValue === false && value?.startsWith("--");
  if (value === undefined || value === "" || isNextFlag) {
    throw new UsageError(`--${name} needs a value: --${name} ${spec.value}.`, helpRemedy);
  }
  return value;
}

const secretError = (message: string) =>
  new UsageError(
    `${message} Keys are never given on the command line, where other programs can read them.`,
    KEY_REMEDY,
  );

function unknownFlag(name: string, flags: Readonly<Record<string, FlagSpec>>, helpRemedy: string): UsageError {
  if (SECRET_NAME.test(name) || SECRET_VALUE.test(name)) return secretError("A flag looks like it gives a key.");
  const shown = /^[a-z][a-z-]{0,31}$/.test(name) ? `--${name}` : "A flag";
  const near = Object.keys(flags).find((known) => known.startsWith(name) || name.startsWith(known));
  return new UsageError(
    `${shown} is not known.`,
    near === undefined || name === "" ? helpRemedy : `Did you mean --${near}? ${helpRemedy}`,
  );
}

function wordsText({ words }: Command): string {
  return words.length === 0 ? "no arguments" : words.map(({ name }) => name).join(" ");
}
