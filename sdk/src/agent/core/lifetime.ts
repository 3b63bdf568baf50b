/**
 * Tracks the agent's running calls from `createAgent` to `close()`: closing ends what waits, and waits for what runs.
 * Knows no payment: what was signed by then stays in the ledger.
 */
import { AbortError } from "../../protocol";
import type { FetchFunction, Sleep } from "./effects";

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
