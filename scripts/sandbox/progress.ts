/** Reports the sandbox's start: each step when it begins, while it runs and when it is done. */
export interface Progress {
  say(line: string): void;
  /** Runs `work` as a reported step. */
  during<T>(step: string, work: Promise<T>): Promise<T>;
}

const STILL_MS = 5_000;

/** @param write receives whole lines; times are counted from now */
export function reportProgress(write: (line: string) => void): Progress {
  const startMs = performance.now();
  const say = (line: string): void =>
    write(`[${((performance.now() - startMs) / 1_000).toFixed(1).padStart(5)} s] ${line}`);
  return {
    say,
    async during(step, work) {
      const sinceMs = performance.now();
      const seconds = (): string => `${((performance.now() - sinceMs) / 1_000).toFixed(1)} s`;
      say(`${step} ...`);
      const timer = setInterval(() => say(`${step}: still at it after ${seconds()}`), STILL_MS);
      try {
        const result = await work;
        say(`${step}: done in ${seconds()}`);
        return result;
      } finally {
        clearInterval(timer);
      }
    },
  };
}
