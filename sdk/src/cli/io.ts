/** Defines what a command may touch outside itself, so that tests run commands in one process. */

/** The effects of one run. */
export interface CliIo {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly home: string;
  /** Writes to standard output. */
  stdout(text: string): void;
  /** Writes to standard error. */
  stderr(text: string): void;
  readonly fetch: typeof fetch;
  /** Waits `ms`; rejects with the signal's reason when it aborts first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** aborts when the user interrupts the program */
  readonly signal: AbortSignal;
}
