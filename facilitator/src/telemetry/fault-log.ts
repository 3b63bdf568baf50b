/**
 * Logs a repeated error of a loop: at once the first time, then periodically with the number of repetitions. An outage
 * of a minute is a few lines, not thousands.
 */
import type { Logger } from "pino";
import { isTurnpikeError } from "turnpike/protocol";

export interface FaultLog {
  /** @param kind errors of one kind are counted together */
  met(kind: string, error: unknown, message: string, fields?: Readonly<Record<string, unknown>>): void;
  /** Resets the kind after a success: the next error is logged at once. */
  recovered(kind: string): void;
}

export interface FaultLogOptions {
  readonly log: Logger;
  readonly monotonicMs: () => number;
  readonly everyMs?: number;
}

const EVERY_MS = 10_000;

/** Messages may contain changing numbers, so the number of remembered ones is limited. */
const MAX_REASONS = 20;

export function createFaultLog({ log, monotonicMs, everyMs = EVERY_MS }: FaultLogOptions): FaultLog {
  /** by kind, then by reason: two reasons that alternate are counted separately */
  const known = new Map<string, Map<string, { loggedMs: number; repeated: number }>>();
  return {
    met(kind, error, message, fields = {}) {
      const reason = error instanceof Error ? error.message : "unknown";
      const reasons = known.get(kind) ?? new Map<string, { loggedMs: number; repeated: number }>();
      known.set(kind, reasons);
      const before = reasons.get(reason);
      const nowMs = monotonicMs();
      if (before && nowMs - before.loggedMs < everyMs) {
        before.repeated += 1;
        return;
      }
      const repeated = before?.repeated ?? 0;
      if (reasons.size >= MAX_REASONS) reasons.clear();
      reasons.set(reason, { loggedMs: nowMs, repeated: 0 });
      const line = { ...fields, reason, ...(repeated > 0 && { repeated }) };
      if (isTurnpikeError(error)) log.warn(line, message);
      // An unexpected error: the stack is needed to fix it.
      else log.error({ ...line, error }, message);
    },
    recovered(kind) {
      known.delete(kind);
    },
  };
}
