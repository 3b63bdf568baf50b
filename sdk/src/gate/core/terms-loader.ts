/** Loads the terms of a route in each of its contexts, and again after an outage or a wrong setting. */
import { type Hex, isTurnpikeError, type TurnpikeError, Unavailable } from "../../protocol";
import { atMost } from "../../protocol/waiting";
import type { GateContext } from "./context";

const RETRY_AFTER_MS = 2_000;

export interface LoadedTerms {
  readonly planIds: readonly Hex[];
  readonly withToken: boolean;
  /** whether payers sign for the token's own domain */
  readonly withDomain: boolean;
}

export class TermsLoader {
  readonly context: GateContext;
  readonly #wanted: LoadedTerms;
  #loading: Promise<void> | undefined;
  #isLoaded = false;
  #startedAtMs: number | undefined;
  #readingAtMs = 0;
  #retryAtMs = 0;
  #fault: TurnpikeError | undefined;

  constructor(context: GateContext, wanted: LoadedTerms) {
    this.context = context;
    this.#wanted = wanted;
  }

  /** whether the terms were read: they stay known in an outage */
  get isLoaded(): boolean {
    return this.#isLoaded;
  }

  /** whether a setting is wrong as far as is known: nothing may be sold by it */
  get isMisconfigured(): boolean {
    return this.#fault?.code === "ConfigError";
  }

  /** why the last reading failed; counts until a later one succeeds */
  get fault(): TurnpikeError | undefined {
    return this.#fault;
  }

  /** how long the first reading has taken so far; infinite once one has failed */
  get unreadMs(): number {
    return performance.now() - (this.#startedAtMs ?? performance.now());
  }

  /** how long the reading that is under way has taken so far */
  get readingMs(): number {
    return this.#loading ? performance.now() - this.#readingAtMs : 0;
  }

  /** Loads them now. @throws ConfigError, Unavailable */
  load(): Promise<void> {
    this.#loading ??= this.#read();
    return this.#loading;
  }

  /** Loads them where they are not sound, at most once in two seconds. */
  async retry(): Promise<void> {
    if ((this.#isLoaded && !this.isMisconfigured) || performance.now() < this.#retryAtMs) return;
    try {
      await this.load();
    } catch (error) {
      // The caller decides on `fault`: an outage leaves options out of this answer, a wrong setting is reported.
      if (!isTurnpikeError(error)) throw error;
    }
  }

  /** Returns the outage that keeps this context from quoting. */
  outage(): Unavailable {
    const message = "The chain cannot be read now, so no price can be quoted; nothing was charged.";
    const retryAfterSec = this.#fault?.retryAfterSec ?? RETRY_AFTER_MS / 1_000;
    return new Unavailable(message, { cause: this.#fault, retryAfterSec });
  }

  async #read(): Promise<void> {
    const { terms } = this.context;
    this.#readingAtMs = performance.now();
    this.#startedAtMs ??= this.#readingAtMs;
    try {
      await terms.load(this.#wanted.planIds, this.#wanted.withToken);
      this.#isLoaded = true;
      await terms.checkChain();
      if (this.#wanted.withDomain) await terms.checkDomain();
      this.#fault = undefined;
    } catch (error) {
      this.#loading = undefined;
      this.#startedAtMs = Number.NEGATIVE_INFINITY;
      this.#retryAtMs = performance.now() + RETRY_AFTER_MS;
      this.#fault = isTurnpikeError(error) ? error : undefined;
      throw error;
    }
  }
}

/**
 * Loads every context's terms. With several, the outage of one is logged and the others are sold.
 * @throws ConfigError of any; Unavailable where none can be read
 */
export async function readyAny(loaders: readonly TermsLoader[]): Promise<void> {
  const results = await Promise.allSettled(loaders.map((loader) => loader.load()));
  const failed = results.filter((result) => result.status === "rejected").map(({ reason }) => reason as unknown);
  const isOutage = (error: unknown) => isTurnpikeError(error) && error.code === "Unavailable";
  const fault = failed.find((error) => !isOutage(error)) ?? (failed.length === loaders.length ? failed[0] : undefined);
  if (fault !== undefined) throw fault;
}

/** How long requests wait for a reading, since it began. */
const PATIENCE_MS = 1_000;

/**
 * Reads what is not known yet, and waits for a bounded time. Where others can be sold meanwhile, only the first reading
 * of one is waited for.
 */
export async function retryAll(loaders: readonly TermsLoader[]): Promise<void> {
  const missing = loaders.filter(({ isLoaded, isMisconfigured }) => !isLoaded || isMisconfigured);
  if (missing.length === 0) return;
  const retried = Promise.all(missing.map((loader) => loader.retry()));
  const takenMs = missing.map((each) => (missing.length === loaders.length ? each.readingMs : each.unreadMs));
  await atMost(PATIENCE_MS - Math.max(...takenMs), retried, () => undefined);
}
