/**
 * Bounds what is waited for and read, in time and in bytes, and reads from an error what the network did. Makes promises
 * that are settled from elsewhere. Keeps no process alive.
 */
import { isTurnpikeError } from "./errors";

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
 * Shares the answer of `ask` with all who ask while it is under way. Hosts such as workerd end what a request has begun
 * with that request, timers too, and its promise then rejects or never settles: others ask themselves.
 * @param longestMs how long `ask` takes at most: one that began earlier is lost
 */
export function sharedCall<T>(longestMs: number, ask: () => Promise<T>): () => Promise<T> {
  let asking: Promise<T> | undefined;
  let beganAtMs = 0;
  return async function call(): Promise<T> {
    const nowMs = performance.now();
    const isOwn = asking === undefined || nowMs - beganAtMs >= longestMs;
    if (isOwn) beganAtMs = nowMs;
    const shared = isOwn || asking === undefined ? ask() : asking;
    asking = shared;
    try {
      const leftMs = beganAtMs + longestMs - nowMs;
      const answer = isOwn ? await shared : await atMost(leftMs, shared, () => LATE);
      if (answer !== LATE) return answer as T;
    } catch (error) {
      if (isOwn || isTurnpikeError(error)) throw error;
    } finally {
      if (asking === shared) asking = undefined;
    }
    return call();
  };
}

/** Does the same, and keeps the answer: after a failure it asks again. */
export function keptCall<T>(longestMs: number, ask: () => Promise<T>): () => Promise<T> {
  let kept: { readonly answer: T } | undefined;
  const call = sharedCall(longestMs, async () => {
    kept = { answer: await ask() };
    return kept.answer;
  });
  return async () => (kept ? kept.answer : call());
}

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

/** Returns the code of the network error behind a failed exchange, such as ECONNREFUSED; undefined where there is none. */
export function networkFault(error: unknown): string | undefined {
  let at = error as { cause?: unknown; code?: unknown; errors?: readonly unknown[] } | undefined;
  for (let depth = 0; at && depth < 8; depth++) {
    if (typeof at.code === "string" && /^(?:E[A-Z_]+|UND_ERR_[A-Z_]+)$/.test(at.code)) return at.code;
    at = (at.cause ?? at.errors?.[0]) as typeof at;
  }
  return undefined;
}

const CLOSED: ReadonlySet<string> = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]);

/** Returns whether the other side closed the connection before it answered: a kept one that it has given up, say. */
export function isConnectionClosed(error: unknown): boolean {
  return CLOSED.has(networkFault(error) ?? "");
}

/** Returns what has Node's own fetch open a connection, and keep none; other fetches ignore it. */
export function overOwnConnection(): object {
  const kept = (globalThis as Record<symbol, object | undefined>)[Symbol.for("undici.globalDispatcher.1")];
  const Dispatcher = kept?.constructor as (new (options: object) => object) | undefined;
  // A proxy's dispatcher knows more than this.
  return Dispatcher?.name === "Agent" ? { dispatcher: new Dispatcher({ pipelining: 0 }) } : {};
}

/** Reads the body of an HTTP response as text, up to a limit. @returns undefined when it is larger */
export async function boundedText(response: Response, maxBytes: number): Promise<string | undefined> {
  if (!response.body) return "";
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    bytes += value.byteLength;
    if (bytes > maxBytes) {
      await reader.cancel();
      return undefined;
    }
    text += decoder.decode(value, { stream: true });
  }
}
