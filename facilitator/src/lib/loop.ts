/**
 * Repeats an action until stopped. Each pause begins with the action, so that a notification during the action is not
 * lost.
 */
export function repeat(act: () => Promise<void>, pause: () => Promise<unknown>): { stop(): Promise<void> } {
  let running = true;
  let endPause = (): void => undefined;
  const done = (async () => {
    while (running) {
      const paused = pause();
      await act();
      if (!running) return;
      await new Promise<void>((resolve, reject) => {
        endPause = resolve;
        paused.then(() => resolve(), reject);
      });
    }
  })();
  return {
    stop() {
      running = false;
      endPause();
      return done;
    },
  };
}

/** Work that runs for a role until it is stopped. */
export interface Worker {
  stop(): Promise<void>;
}
