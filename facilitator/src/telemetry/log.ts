/**
 * Creates the service's log: JSON lines from which secrets are removed. Signatures, subscription ids, raw transactions
 * and calldata are recognized by their length; keys and connection URLs by their value.
 */
import type { Logger } from "pino";
import pino from "pino";
import type { FacilitatorConfig } from "../config";

/** A subscription id has 104 digits; hashes (64) and addresses (40) may be logged. */
const LONG_HEX = /0x[0-9a-fA-F]{104,}/g;

/** API keys and webhook secrets, by their prefix; a key's id may be logged. */
const TOKENS = /(tpk_[0-9a-z]{1,32}_)[A-Za-z0-9_-]{8,}|whsec_[A-Za-z0-9+/=_-]{8,}/g;

const REDACTED = "[redacted]";

export interface LogOptions {
  readonly level: FacilitatorConfig["logLevel"];
  readonly secrets: readonly string[];
  /** where lines go; stdout when absent */
  readonly write?: (line: string) => void;
}

export function createLog({ level, secrets, write = (line) => void process.stdout.write(line) }: LogOptions): Logger {
  const forms = secrets.flatMap((secret) => [secret, secret.toLowerCase(), secret.replace(/^0x/, "").toLowerCase()]);
  const unique = [...new Set(forms)].filter((form) => form.length >= 8);
  return pino(
    {
      level,
      base: undefined,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: ["signature", "*.signature", "*.*.signature", "secret", "*.secret"], censor: REDACTED },
      serializers: { error: describeError, err: describeError },
    },
    { write: (line: string) => write(scrub(line, unique)) },
  );
}

export function secretsOf(config: FacilitatorConfig): string[] {
  const { relayerKeys, proofKey, refundKeys = [], database, rpcUrls } = config;
  const sources = [...relayerKeys, ...(proofKey ? [proofKey] : []), ...refundKeys.map(({ source }) => source)];
  const keys = sources.flatMap((source) => (source.kind === "local" ? [source.key.reveal()] : []));
  const urls = rpcUrls.flatMap(formsOf).filter(mayHoldKey);
  return [...keys, ...urls, ...secretsOfDatabase(database)];
}

export const secretsOfDatabase = (database: FacilitatorConfig["database"]): string[] =>
  database.kind === "postgres" ? [database.url.reveal()] : [];

/** Returns a URL as it was given, written out, and without the user's name, which goes into a header. */
function formsOf(url: string): string[] {
  const { href, protocol, host, pathname, search } = new URL(url);
  return [url, href, `${protocol}//${host}${pathname}${search}`];
}

/** RPC providers put API keys into a URL's path, its query or its user name. */
function mayHoldKey(url: string): boolean {
  const { href, protocol, host } = new URL(url);
  return href !== `${protocol}//${host}/`;
}

function scrub(line: string, secrets: readonly string[]): string {
  let clean = line.replace(LONG_HEX, REDACTED).replace(TOKENS, (_, id = "") => `${id}${REDACTED}`);
  for (const secret of secrets) clean = clean.replaceAll(secret, REDACTED);
  return clean;
}

/** Describes an error with its causes. Omits other properties of foreign errors, which may contain secrets. */
function describeError(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return typeof error;
  const { name, message, stack, cause } = error;
  const code = (error as { code?: unknown }).code;
  return {
    name,
    message,
    ...(typeof code === "string" && { code }),
    ...(cause !== undefined && depth < 4 && { cause: describeError(cause, depth + 1) }),
    ...(depth === 0 && { stack }),
  };
}
