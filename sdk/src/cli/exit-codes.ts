import { type ErrorCode, isTurnpikeError } from "../protocol";
import { isUnreached, UsageError } from "./command-errors";

/** Each exit code with its meaning, as the help and docs/reference/cli.md state it. */
export const EXIT_CODES = {
  done: { code: 0, meaning: "The command did what it says." },
  failed: {
    code: 1,
    meaning: "The command failed, the server's answer is an error, or `validate` or `audit` found a problem.",
  },
  usage: { code: 2, meaning: "An argument, a setting or a file is missing or wrong. Nothing was sent or signed." },
  refused: { code: 3, meaning: "`--max`, the policy or the terms do not allow it. Nothing was signed." },
  pending: { code: 4, meaning: "The outcome is not known yet. Repeat the same command: it never pays twice." },
  unavailable: {
    code: 5,
    meaning: "A server, the Facilitator, the chain or the ledger cannot be reached. Repeat the command later.",
  },
} as const;

/** The name of an exit code. */
export type ExitName = keyof typeof EXIT_CODES;

const BY_ERROR: Partial<Record<ErrorCode, ExitName>> = {
  ConfigError: "usage",
  InvalidRequest: "usage",
  CapTooLarge: "usage",
  PolicyRefused: "refused",
  PlanDeprecated: "refused",
  InsufficientFunds: "refused",
  InsufficientApproval: "refused",
  PaymentPending: "pending",
  InvalidPaymentProof: "pending",
  AbortError: "pending",
  Unavailable: "unavailable",
  RateLimited: "unavailable",
  LedgerLocked: "unavailable",
};

/** Returns the exit code with which a command ends after an error. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError) return EXIT_CODES.usage.code;
  if (isTurnpikeError(error)) return EXIT_CODES[BY_ERROR[error.code] ?? "failed"].code;
  if (isUnreached(error)) return EXIT_CODES.unavailable.code;
  return EXIT_CODES.failed.code;
}
