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

/** Messages may hold numbers that change: what is remembered is bounded. */
const MAX_REASONS = 20;

export function createFaultLog({ log, monotonicMs, everyMs = EVERY_MS }: FaultLogOptions): FaultLog {
  /** by kind, and within it by reason: two that alternate are two */
  const known = new Map<string, Map<string, { saidMs: number; repeated: number }>>();
  return {
    met(kind, error, message, fields = {}) {
      const reason = error instanceof Error ? error.message : "unknown";
      const reasons = known.get(kind) ?? new Map<string, { saidMs: number; repeated: number }>();
      known.set(kind, reasons);
      const before = reasons.get(reason);
      const nowMs = monotonicMs();
      if (before && nowMs - before.saidMs < everyMs) {
        before.repeated += 1;
        return;
      }
      const repeated = before?.repeated ?? 0;
      if (reasons.size >= MAX_REASONS) reasons.clear();
      reasons.set(reason, { saidMs: nowMs, repeated: 0 });
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
