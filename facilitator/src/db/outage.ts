/**
 * Distinguishes an outage of the database from an error in a statement. After an outage the work's outcome is unknown:
 * a commit may have happened, so callers read again.
 */
import { isTurnpikeError, type TurnpikeError, Unavailable } from "turnpike/protocol";

/** `reason` of the error that every caller receives during an outage. */
export const DATABASE_OUTAGE = "database";

const RETRY_AFTER_SEC = 2;

const SHORT_RETRY_SEC = 1;

/** SQLSTATE classes: connection, authorization, resources (a full disk too), operator intervention, system. */
const OUTAGE_CLASSES = new Set(["08", "28", "53", "57", "58"]);

/** invalid_catalog_name */
const MISSING_DATABASE = "3D000";

/** read_only_sql_transaction: the server became a standby. invalid_catalog_name: it is being restored. */
const OUTAGE_STATES = new Set(["25006", MISSING_DATABASE]);

/** serialization_failure, deadlock_detected, lock_not_available: the same statement may succeed at once. */
const CONTENTION_STATES = new Set(["40001", "40P01", "55P03"]);

const SOCKET_CODES = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "ECONNABORTED",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENETDOWN",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EADDRNOTAVAIL",
  "ENOENT",
  "ENOSPC",
  "EMFILE",
]);

/** Messages without a code from `pg`, its pool and the query builder when a connection is lost. */
const LOST =
  /connection (?:terminated|error)|not queryable|timeout exceeded when trying to connect|timeout expired|query read timeout|pool after calling end|PGlite is clos/i;

const codeOf = (error: unknown): string | undefined => {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : undefined;
};

type Trouble = "outage" | "contention";

function troubleOf(error: unknown): Trouble | undefined {
  const code = codeOf(error);
  if (code !== undefined) {
    if (CONTENTION_STATES.has(code)) return "contention";
    if (SOCKET_CODES.has(code) || OUTAGE_STATES.has(code)) return "outage";
    if (/^[0-9A-Z]{5}$/.test(code)) return OUTAGE_CLASSES.has(code.slice(0, 2)) ? "outage" : undefined;
  }
  return error instanceof Error && LOST.test(error.message) ? "outage" : undefined;
}

/** Describes an outage for operators by its code only, because a driver's message may contain the connection URL. */
export function describeOutage(error: unknown): string {
  const cause = isDatabaseOutage(error) ? error.cause : error;
  const code = codeOf(cause);
  if (code === "53100" || code === "ENOSPC") return "its disk is full (53100)";
  if (code === "25006") return "it takes no writes: a standby, or read-only (25006)";
  if (code === "53300") return "it takes no more connections (53300)";
  if (code === MISSING_DATABASE) return "the database does not exist (3D000)";
  if (code?.startsWith("28")) return `it rejects this service's credentials (${code})`;
  return code === undefined ? "the connection was lost" : `it does not answer (${code})`;
}

/** Converts a driver's error for callers: Unavailable for an outage, else the error itself. */
export function translateDatabaseError(error: unknown): unknown {
  if (isTurnpikeError(error)) return error;
  const trouble = troubleOf(error);
  if (trouble === undefined) return error;
  if (trouble === "contention")
    return new Unavailable("The database is contended.", { cause: error, retryAfterSec: SHORT_RETRY_SEC });
  return new Unavailable(`The database is unavailable: ${describeOutage(error)}.`, {
    cause: error,
    reason: DATABASE_OUTAGE,
    retryAfterSec: RETRY_AFTER_SEC,
  });
}

/** The server rejected the statement, or was never reached: nothing has changed. */
const REFUSED = /^(?:53...|25006|28...|3D000|57P03|ECONNREFUSED|ENOTFOUND|EAI_AGAIN)$/;

/** Returns whether a statement or commit may have been executed although it met this error. */
export function isOutcomeUnknown(error: unknown): boolean {
  if (!isDatabaseOutage(error)) return false;
  const code = codeOf(error.cause);
  if (code !== undefined) return !REFUSED.test(code);
  return !(error.cause instanceof Error && /when trying to connect|connection timeout/i.test(error.cause.message));
}

export function isDatabaseOutage(error: unknown): error is TurnpikeError {
  return isTurnpikeError(error) && error.code === "Unavailable" && error.reason === DATABASE_OUTAGE;
}
