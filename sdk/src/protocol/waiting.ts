/** Bounds waits in time, and makes promises that are settled from elsewhere. Keeps no process alive. */

/** A promise, and what settles it. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;
}

export function deferred<T = void>(): Deferred<T> {
  let resolve: Deferred<T>["resolve"] = () => undefined;
  let reject: Deferred<T>["reject"] = () => undefined;
  const promise = new Promise<T>((onValue, onReason) => {
    resolve = onValue;
    reject = onReason;
  });
  return { promise, resolve, reject };
}

/**
 * Waits for an answer for at most `waitMs` milliseconds.
 * @param onLate makes the result after that, or throws
 */
export async function atMost<T, Late>(waitMs: number, answer: Promise<T>, onLate: () => Late): Promise<T | Late> {
  const { promise: late, resolve: end } = deferred<typeof LATE>();
  const timer = detached(setTimeout(() => end(LATE), Math.max(0, waitMs)));
  try {
    const first = await Promise.race([answer, late]);
    return first === LATE ? onLate() : first;
  } finally {
    clearTimeout(timer);
  }
}

const LATE = Symbol("late");

/**
 * Aborts a request that takes too long; call `end` when it has ended. Its timer keeps the signal: that of
 * AbortSignal.timeout can be collected inside AbortSignal.any, which then never aborts.
 */
export class Deadline {
  readonly #late = new AbortController();
  readonly #timer: ReturnType<typeof setTimeout>;
  #isOver = false;
  /** Aborts at the deadline, or when the caller's own signal does. */
  readonly signal: AbortSignal;

  constructor(timeoutMs: number, callers?: AbortSignal) {
    const late = this.#late;
    this.signal = callers ? AbortSignal.any([callers, late.signal]) : late.signal;
    const onLate = () => {
      this.#isOver = !late.signal.aborted;
      late.abort(new DOMException("The operation was aborted due to timeout", "TimeoutError"));
    };
    this.#timer = detached(setTimeout(onLate, timeoutMs));
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Aborts before the deadline. */
  abort(reason: unknown): void {
    this.#late.abort(reason);
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

/** A timer that lets the process exit; browsers know no other. */
function detached(timer: ReturnType<typeof setTimeout>): ReturnType<typeof setTimeout> {
  (timer as { unref?: () => void }).unref?.();
  return timer;
}
