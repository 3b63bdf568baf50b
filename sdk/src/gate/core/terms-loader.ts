/** Loads the terms of one route in one context, and again after an outage or a wrong setting. */
import { type Hex, isTurnpikeError, type TurnpikeError, Unavailable } from "../../protocol";
import type { GateContext } from "./context";

export interface TermsLoader {
  readonly context: GateContext;
  /** whether the terms were read: they stay known in an outage */
  readonly isLoaded: boolean;
  /** whether a setting is wrong as far as is known: nothing may be sold by it */
  readonly isMisconfigured: boolean;
  /** why the last reading failed; counts until a later one succeeds */
  readonly fault: TurnpikeError | undefined;
  /** how long the first reading has taken so far; infinite once one has failed */
  readonly unreadMs: number;
  /** Loads them now. @throws ConfigError, Unavailable */
  load(): Promise<void>;
  /** Loads them where they are not sound, at most once in two seconds. */
  retry(): Promise<void>;
  /** Returns the outage that keeps this context from quoting. */
  outage(): Unavailable;
}

const RETRY_AFTER_MS = 2_000;

export interface LoadedTerms {
  readonly planIds: readonly Hex[];
  readonly withToken: boolean;
}

export function createTermsLoader(context: GateContext, { planIds, withToken }: LoadedTerms): TermsLoader {
  const { terms } = context;
  let loading: Promise<void> | undefined;
  let isLoaded = false;
  let startedAtMs: number | undefined;
  let retryAtMs = 0;
  let fault: TurnpikeError | undefined;

  async function read(): Promise<void> {
    startedAtMs ??= performance.now();
    try {
      await terms.load(planIds, withToken);
      isLoaded = true;
      await terms.checkChain();
      fault = undefined;
    } catch (error) {
      loading = undefined;
      startedAtMs = Number.NEGATIVE_INFINITY;
      retryAtMs = performance.now() + RETRY_AFTER_MS;
      fault = isTurnpikeError(error) ? error : undefined;
      throw error;
    }
  }

  function load(): Promise<void> {
    loading ??= read();
    return loading;
  }

  const isMisconfigured = (): boolean => fault?.code === "ConfigError";

  return {
    context,
    get isLoaded() {
      return isLoaded;
    },
    get isMisconfigured() {
      return isMisconfigured();
    },
    get fault() {
      return fault;
    },
    get unreadMs() {
      return performance.now() - (startedAtMs ?? performance.now());
    },
    load,
    async retry() {
      if ((isLoaded && !isMisconfigured()) || performance.now() < retryAtMs) return;
      try {
        await load();
      } catch (error) {
        // The caller decides on `fault`: an outage leaves options out of this answer, a wrong setting is reported.
        if (!isTurnpikeError(error)) throw error;
      }
    },
    outage() {
      const message = "The chain cannot be read now, so no price can be quoted; nothing was charged.";
      const retryAfterSec = fault?.retryAfterSec ?? RETRY_AFTER_MS / 1_000;
      return new Unavailable(message, { cause: fault, retryAfterSec });
    },
  };
}
