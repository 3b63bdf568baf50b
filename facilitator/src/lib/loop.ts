/** Acts again and again until stopped. The pause begins with the act, so that a wake during the act is not lost. */
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

/** What runs for a role until it is told to stop. */
export interface Worker {
  stop(): Promise<void>;
}
