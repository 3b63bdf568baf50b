/**
 * Writes what a command prints. Everything passes here, so that no secret and no escape sequence reaches the terminal.
 * With `--json` standard output holds JSON alone.
 */
import { isTurnpikeError } from "../protocol";
import { networkFault } from "../protocol/exchange";
import { CommandFailed, isUnreached, UsageError } from "./command-errors";
import { exitCodeOf } from "./exit-codes";
import type { CliIo } from "./io";
import { safeJson, safeLine, safeText } from "./text";

/** Characters of an error's message that are shown; servers write parts of some messages. */
const MAX_MESSAGE = 2_000;

/** How a command prints. */
export interface Output {
  readonly isJson: boolean;
  /** Never prints this value from now on: a key that was read. */
  hide(secret: string): void;
  /** Prints the result: the document with `--json`, else the lines. Call it once, or once for each item of a stream. */
  result(document: object, lines: readonly string[]): void;
  /** Prints a note about progress to standard error. */
  note(line: string): void;
}

const HIDDEN = "[hidden]";

/** The shortest text that is treated as a secret: shorter values would hide ordinary words. */
const MIN_SECRET = 8;

/** @param isJson whether results are JSON documents; a stream prints one document in each line */
export function createOutput(
  io: CliIo,
  { isJson, isStream }: { readonly isJson: boolean; readonly isStream: boolean },
) {
  const secrets = new Set<string>();
  const withoutSecrets = (text: string): string => {
    let shown = text;
    for (const secret of secrets) shown = shown.replaceAll(secret, HIDDEN);
    return shown;
  };
  const output: Output = {
    isJson,
    hide(secret) {
      if (secret.length < MIN_SECRET) return;
      // A key is the same secret in either case, and without its prefix.
      for (const form of [secret, secret.replace(/^0x/i, "")]) {
        for (const each of [form, form.toLowerCase(), form.toUpperCase()]) secrets.add(each);
      }
    },
    result(document, lines) {
      const text = isJson ? safeJson(document, isStream ? undefined : 2) : safeText(lines.join("\n"));
      if (text !== "") io.stdout(`${withoutSecrets(text)}\n`);
    },
    note(line) {
      io.stderr(`${withoutSecrets(safeText(line))}\n`);
    },
  };
  return output;
}

/** Prints an error with what to do next. @returns the exit code */
export function printError(output: Output, error: unknown, isDebug: boolean): number {
  const exitCode = exitCodeOf(error);
  const { code, message, remedy, more } = factsOf(error);
  if (output.isJson) {
    output.result({ error: { code, message, remedy, ...more, exitCode } }, []);
    return exitCode;
  }
  output.note(`error: ${message} (${code})`);
  output.note(`next:  ${remedy}`);
  if (isDebug && error instanceof Error && error.stack) output.note(error.stack);
  return exitCode;
}

interface ErrorFacts {
  readonly code: string;
  readonly message: string;
  readonly remedy: string;
  readonly more: Readonly<Record<string, unknown>>;
}

function factsOf(error: unknown): ErrorFacts {
  if (error instanceof UsageError || error instanceof CommandFailed) {
    const code = error instanceof UsageError ? "Usage" : "Failed";
    return { code, message: safeLine(error.message, MAX_MESSAGE), remedy: error.remedy, more: {} };
  }
  if (isTurnpikeError(error)) {
    const { reason, retryAfterSec, details } = error;
    const more = {
      ...(reason !== undefined && { reason }),
      ...(retryAfterSec !== undefined && { retryAfterSec }),
      ...(Object.keys(details).length > 0 && { details }),
    };
    return { code: error.code, message: safeLine(error.message, MAX_MESSAGE), remedy: error.remedy, more };
  }
  const isNetwork = isUnreached(error);
  const message = error instanceof Error ? error.message : String(error);
  const fault = isNetwork ? networkFault(error) : undefined;
  return {
    code: isNetwork ? "Unreachable" : "Failed",
    message: safeLine(fault && !message.includes(fault) ? `${message}: ${fault}` : message, MAX_MESSAGE),
    remedy: isNetwork
      ? "Check the URL and that the server runs, and repeat the command."
      : "Set TURNPIKE_DEBUG=1 to see where it failed.",
    more: {},
  };
}
