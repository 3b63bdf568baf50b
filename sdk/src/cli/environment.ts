import { join, resolve } from "node:path";
import { type OpenedFile, readOpened } from "../mcp/wallet/opened-file";
import { UsageError } from "./command-errors";
import type { CliIo } from "./io";
import type { Output } from "./output";

/** Each variable with its meaning, as the help and docs/reference/cli.md state it. */
export const ENVIRONMENT = {
  TURNPIKE_WALLET_KEY: "the wallet that pays: file:PATH (a file that only you can read) or the private key itself",
  TURNPIKE_HOME: "the folder of the ledger and the policy; default ~/.turnpike",
  TURNPIKE_FACILITATOR_URL: "the Facilitators that may get a signature, comma-separated base URLs",
  TURNPIKE_NETWORK: "the network that is paid on, such as base-mainnet; default: any",
  TURNPIKE_TOKEN: "the tokens that may be paid with, comma-separated; default: each network's own",
  TURNPIKE_RPC_URL: "your own JSON-RPC of TURNPIKE_NETWORK, which is trusted before any Facilitator",
  TURNPIKE_ADDRESS: "the Turnpike contract on TURNPIKE_NETWORK, where no deployment is known",
  TURNPIKE_API_KEY: "of the Facilitator, with the scope read, for `listen`: file:PATH or the key itself",
  TURNPIKE_WEBHOOK_SECRET: "what `listen` signs with: file:PATH or the secret itself; default: a file in TURNPIKE_HOME",
  TURNPIKE_DEBUG: "1: print the stack of an error",
} as const;

/** The name of a variable. */
export type VariableName = keyof typeof ENVIRONMENT;

/** Returns a variable's text; undefined when it is unset or empty. */
export function variable({ env }: CliIo, name: VariableName): string | undefined {
  return env[name]?.trim() || undefined;
}

/** Returns the parts of a comma-separated variable. */
export function listVariable(io: CliIo, name: VariableName): string[] {
  return (variable(io, name)?.split(",") ?? []).map((part) => part.trim()).filter((part) => part !== "");
}

/** Returns the folder of the ledger and the policy. */
export function homeFolder(io: CliIo): string {
  const named = variable(io, "TURNPIKE_HOME");
  return named === undefined ? join(io.home, ".turnpike") : resolve(io.cwd, named);
}

const FILE = "file:";

/** What a secret is called in errors, and what it looks like. */
export interface SecretForm {
  readonly variable: VariableName;
  readonly what: string;
  readonly pattern: Pick<RegExp, "test">;
  readonly form: string;
}

/**
 * Reads a secret from a variable, or from the file that the variable names, and hides it from all output.
 * @returns undefined when the variable is unset
 * @throws UsageError when it is malformed, or when others can read the file; without its value
 */
export async function secretVariable(io: CliIo, output: Output, form: SecretForm): Promise<string | undefined> {
  const text = variable(io, form.variable);
  if (text === undefined) return undefined;
  if (text.startsWith(FILE)) return readSecretFile(resolve(io.cwd, text.slice(FILE.length)), output, form);
  output.hide(text);
  if (form.pattern.test(text)) return text;
  throw new UsageError(
    `${form.variable} holds no ${form.what} (${form.form}), and does not start with file:.`,
    `Set ${form.variable}=file:PATH, where PATH is a file with the ${form.what} alone.`,
  );
}

/** @throws UsageError when the file is missing, malformed, or readable by others; without its contents */
export async function readSecretFile(
  file: string,
  output: Output,
  { what, pattern, form }: SecretForm,
): Promise<string> {
  let opened: OpenedFile;
  try {
    opened = await readOpened(file);
  } catch (error) {
    const why = (error as { code?: string }).code === "ENOENT" ? "does not exist" : "cannot be read";
    // A key in the place of a path is not printed.
    const shown = /[0-9a-fA-F]{64}|tpk_|whsec_/.test(file) ? "that the setting names" : file;
    throw new UsageError(
      `The file ${shown} ${why}.`,
      `Write the ${what} to a file that only you can read, and name it.`,
    );
  }
  const text = opened.text.trim();
  output.hide(text);
  if (process.platform !== "win32" && (opened.mode & 0o077) !== 0) {
    throw new UsageError(`Other users can read the file ${file}, which holds a secret.`, `Run: chmod 600 ${file}`);
  }
  if (pattern.test(text)) return text;
  throw new UsageError(`The file ${file} holds no ${what} (${form}).`, `Write the ${what} alone into the file.`);
}
