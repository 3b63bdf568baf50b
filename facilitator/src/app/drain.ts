/** Ends waiting requests when the service stops: first those for an outcome, then all. */
import { Unavailable } from "turnpike/protocol";
import { STOPPING } from "../lib/stopping";

export interface Drain {
  /** The service is stopping: requests that wait for an outcome are answered with what is known. */
  begin(): void;
  until<T>(work: Promise<T>): Promise<T | "draining">;
  /** Connections are about to be cut: requests without a response get an error that the service is stopping. */
  end(): void;
  /** @throws Unavailable at the end */
  untilEnd<T extends object>(work: Promise<T>): Promise<T>;
}

/** A replacement process is up by then. */
const RETRY_AFTER_SEC = 5;

export function createDrain(): Drain {
  const [drained, ended] = [createGate(), createGate()];
  return {
    begin: drained.open,
    end: ended.open,
    until: (work) => drained.race(work, "draining" as const),
    async untilEnd(work) {
      const outcome = await ended.race(work, undefined);
      if (outcome === undefined)
        throw new Unavailable("The Facilitator is stopping; send the request again.", {
          reason: STOPPING,
          retryAfterSec: RETRY_AFTER_SEC,
        });
      return outcome;
    },
  };
}

/** Each race is released when its work is done: racing against one lasting promise would keep them all in memory. */
function createGate() {
  const waiting = new Set<() => void>();
  let isOpen = false;
  return {
    open() {
      isOpen = true;
      for (const end of [...waiting]) end();
    },
    race: <T, U>(work: Promise<T>, instead: U) =>
      new Promise<T | U>((resolve, reject) => {
        const end = (): void => resolve(instead);
        waiting.add(end);
        work.then(resolve, reject).finally(() => waiting.delete(end));
        if (isOpen) end();
      }),
  };
}
