/** Waits for what a test needs. The error of a test that runs out of time names what it waited for. */
import { inspect } from "node:util";
import { Runnable } from "mocha";

/** The most that one attempt counts, so that a paused machine or a slow attempt does not use up the timeout. */
const LOOK_COUNTS_MS = 5_000;

const PAUSE_MS = 20;

const ON_ONE_LINE = { depth: 3, breakLength: Number.POSITIVE_INFINITY, compact: true };

interface Wait {
  readonly what: string;
  readonly beganMs: number;
  looks: number;
  /** when the last attempt began; undefined between attempts */
  lookingSinceMs: number | undefined;
  seen?: unknown;
}

/** Keeps what an attempt found, unless it is nothing. */
type Saw = (value: unknown) => undefined;

/** of the running test; those of a test that ran out of time go on, and are the next one's no more */
const open = new Set<Wait>();

/**
 * Polls until `look` answers something, instead of sleeping and hoping.
 * @param look gives `saw` what it found instead, for the error of a wait in vain
 */
export async function until<T>(
  look: (saw: Saw) => Promise<T | undefined | false>,
  what: string,
  timeoutMs = 60_000,
): Promise<T> {
  const wait: Wait = { what, beganMs: performance.now(), looks: 0, lookingSinceMs: undefined };
  const saw: Saw = (value) => {
    if (value !== undefined) wait.seen = value;
    return undefined;
  };
  open.add(wait);
  try {
    for (let waitedMs = 0; ; ) {
      const beganMs = performance.now();
      wait.lookingSinceMs = beganMs;
      wait.looks += 1;
      const found = await look(saw);
      wait.lookingSinceMs = undefined;
      if (found !== undefined && found !== false) return found;
      if (waitedMs > timeoutMs) throw new Error(`timed out waiting until ${describeWait(wait)}`);
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      waitedMs += Math.min(performance.now() - beganMs, LOOK_COUNTS_MS);
    }
  } finally {
    open.delete(wait);
  }
}

function describeWait({ what, beganMs, looks, lookingSinceMs, seen }: Wait): string {
  const seconds = (sinceMs: number): string => `${Math.round((performance.now() - sinceMs) / 1_000)} s`;
  const parts = [`for ${seconds(beganMs)}, attempts: ${looks}`];
  if (lookingSinceMs !== undefined) parts.push(`the last one has not ended for ${seconds(lookingSinceMs)}`);
  if (seen instanceof Error) parts.push(`last seen: ${seen}`);
  else if (seen !== undefined) parts.push(`last seen: ${inspect(seen, ON_ONE_LINE)}`);
  return `${what} (${parts.join("; ")})`;
}

/** Mocha knows only that a test ran out of time. Waits may count less than the time they take, so it may end first. */
function nameWaitsInTimeouts(): void {
  const runnable = Runnable.prototype as unknown as { _timeoutError(ms: number): Error };
  const plain = runnable._timeoutError;
  runnable._timeoutError = function (ms) {
    const error = plain.call(this, ms);
    const waits = [...open].map((wait) => `\nIt was waiting until ${describeWait(wait)}`).join("");
    error.stack = `${error.stack}`.replace(error.message, `${error.message}${waits}`);
    error.message += waits;
    open.clear();
    return error;
  };
}

nameWaitsInTimeouts();
