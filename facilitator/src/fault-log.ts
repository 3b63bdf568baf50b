/**
 * Logs a fault that a loop meets again and again: the first time at once, then once in a while with how often it was
 * met since. An outage of a minute is a few lines, not thousands.
 */
import type { Logger } from "pino";
import { isTurnpikeError } from "turnpike/protocol";

export interface FaultLog {
  /** @param kind what is counted together */
  met(kind: string, error: unknown, message: string, fields?: Readonly<Record<string, unknown>>): void;
  /** The work succeeded: the next fault is a new one. */
  recovered(kind: string): void;
}

export interface FaultLogOptions {
  readonly log: Logger;
  readonly monotonicMs: () => number;
  readonly everyMs?: number;
}

const EVERY_MS = 10_000;

export function createFaultLog({ log, monotonicMs, everyMs = EVERY_MS }: FaultLogOptions): FaultLog {
  const known = new Map<string, { reason: string; saidMs: number; repeated: number }>();
  return {
    met(kind, error, message, fields = {}) {
      const reason = error instanceof Error ? error.message : "unknown";
      const before = known.get(kind);
      const nowMs = monotonicMs();
      if (before?.reason === reason && nowMs - before.saidMs < everyMs) {
        before.repeated += 1;
        return;
      }
      const repeated = before?.reason === reason ? before.repeated : 0;
      known.set(kind, { reason, saidMs: nowMs, repeated: 0 });
      const line = { ...fields, reason, ...(repeated > 0 && { repeated }) };
      if (isTurnpikeError(error)) log.warn(line, message);
      // Not foreseen: the stack is what somebody needs to mend it.
      else log.error({ ...line, error }, message);
    },
    recovered(kind) {
      known.delete(kind);
    },
  };
}
