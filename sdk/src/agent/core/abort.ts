/**
 * Ends calls early, by the caller's signal or by the agent's `close()`. The errors of such calls say whether anything
 * was signed, whether money may still move, and what to do. Their `name` is `AbortError`, as with fetch, and `cause` is
 * the signal's own reason.
 */
import { AbortError, type Hex, isTurnpikeError } from "../../protocol";
import type { PaymentEntry } from "../ledger/ledger-store";
import type { FetchFunction, Sleep } from "./effects";
import type { RequestInput } from "./request";

export function signalOf(input: RequestInput, init: RequestInit | undefined): AbortSignal | undefined {
  return init?.signal ?? (input instanceof Request ? input.signal : undefined);
}

/** Returns whether `error` is due to the caller's abort. An exchange that is cut off looks like an outage. */
function isAbort(error: unknown, signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true && (!isTurnpikeError(error) || error.code === "Unavailable");
}

/** Runs a call; its abort becomes an error that says that nothing was signed, unless a payment has said otherwise. */
export async function orNothingSigned<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw isAbort(error, signal) ? nothingSigned(signal?.reason) : error;
  }
}

interface Signed {
  readonly signal: AbortSignal | undefined;
  /** Aborts when the agent is closed. */
  readonly closing: AbortSignal;
  /** Reads what the ledger holds of the payment. */
  readonly now: () => PaymentEntry;
}

/** Runs the part of a call that follows a signature; its abort becomes an error with the payment's state. */
export async function orHeld<T>({ signal, closing, now }: Signed, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (isAbort(error, signal)) throw afterSigning(now(), signal?.reason);
    throw closing.aborted && error === closing.reason ? afterSigning(now(), error) : error;
  }
}

function nothingSigned(cause: unknown): AbortError {
  return new AbortError("The call was aborted. Nothing was signed, and nothing was paid.", {
    reason: "nothing_signed",
    details: { signed: false },
    cause,
  });
}

function afterSigning(entry: PaymentEntry, cause: unknown): AbortError {
  const { id, amount, payTo, validBeforeSec, state } = entry;
  const transaction = (entry.proof?.transaction ?? entry.transaction) as Hex | undefined;
  const details = { signed: true, paymentId: id, amount, payTo, validBefore: validBeforeSec };
  const facts = { details: { ...details, ...(transaction ? { transaction } : {}) }, cause };
  if (state === "released") return nothingSigned(cause);
  const payment = `Payment ${id} of ${amount} base units to ${payTo}`;
  if (state === "served") {
    return new AbortError(`${payment} was served, and the call was aborted while its response was read.`, {
      ...facts,
      reason: "served",
    });
  }
  const again = "Repeat the call with the same request: it presents this payment and signs no other.";
  return state === "settled"
    ? new AbortError(`${payment} was paid, and the call was aborted before the provider served it. ${again}`, {
        ...facts,
        reason: "paid",
      })
    : new AbortError(
        `${payment} was signed, and the call was aborted: it may still settle until ${validBeforeSec} (unix seconds). ${again} agent.settleHeld() asks for its outcome.`,
        { ...facts, reason: "signed" },
      );
}

/**
 * Tracks the agent's running calls from `createAgent` to `close()`: closing ends what waits, and waits for what runs.
 * Knows no payment: what was signed by then stays in the ledger.
 */
export class Lifetime {
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  readonly #listeners = new Set<() => void>();

  /** Aborts when the agent is closed. Its many short-lived listeners come through `onClose`. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** @returns how to stop listening */
  onClose(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Runs one call of the agent. @throws AbortError once the agent is closed */
  run<T>(work: () => Promise<T>): Promise<T> {
    const { closing } = this;
    if (closing.aborted) return Promise.reject(closedError(closing.reason));
    const mine = work().catch((error: unknown) => {
      throw closing.aborted && error === closing.reason ? closedError(error) : error;
    });
    this.#running.add(mine);
    return mine.finally(() => this.#running.delete(mine));
  }

  /** Ends what waits. Resolves once every call has returned. */
  async close(): Promise<void> {
    this.#closing.abort(new DOMException("The agent is closed.", "AbortError"));
    for (const listener of [...this.#listeners]) listener();
    await Promise.allSettled(this.#running);
  }

  /** Returns `work`, or rejects when the agent is closed first: a wallet or a person may never answer. */
  orClosed<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const onClose = () => reject(this.closing.reason);
      if (this.closing.aborted) return onClose();
      const forget = this.onClose(onClose);
      work.then(resolve, reject).finally(forget);
    });
  }

  /** Wraps a sleep so that it resolves early when the agent is closed; the caller then checks `closing`. */
  sleep(sleep: Sleep): Sleep {
    return async (ms, signal) => {
      if (this.closing.aborted) return;
      const stop = new AbortController();
      let forget = () => {};
      const closed = new Promise<void>((resolve) => {
        forget = this.onClose(() => {
          resolve();
          stop.abort(this.closing.reason);
        });
      });
      try {
        await Promise.race([sleep(ms, signal ? AbortSignal.any([signal, stop.signal]) : stop.signal), closed]);
      } catch (error) {
        if (signal?.aborted || !this.closing.aborted) throw error;
      } finally {
        forget();
      }
    };
  }

  /** Wraps fetch so that requests end with the agent; a response that has begun may still be read. */
  fetch(send: FetchFunction): FetchFunction {
    return async (input, init) => {
      this.closing.throwIfAborted();
      const stop = new AbortController();
      const forget = this.onClose(() => stop.abort(this.closing.reason));
      const signal = init.signal ? AbortSignal.any([init.signal, stop.signal]) : stop.signal;
      try {
        return await send(input, { ...init, signal });
      } finally {
        forget();
      }
    };
  }
}

function closedError(cause: unknown): AbortError {
  const message = "The agent is closed. Nothing was signed by this call, and nothing was paid.";
  return new AbortError(message, { details: { signed: false }, cause });
}
