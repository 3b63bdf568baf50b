/** Runs servers: one that can stop and restart at the same address, and several that stop in reverse order. */
interface Running {
  stop(): Promise<void>;
}

export interface Restartable {
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts it; `launch` is called again at every later start. */
export async function restartable(launch: () => Promise<Running>): Promise<Restartable> {
  let running: Running | undefined = await launch();
  return {
    async start() {
      running ??= await launch();
    },
    async stop() {
      const stopping = running;
      running = undefined;
      await stopping?.stop();
    },
  };
}

/** Keeps what has started, and stops it in reverse order. */
export class StartedParts {
  readonly #closers: (() => Promise<void>)[] = [];

  /** Adds a part that runs. @returns the part */
  add<Part extends Running>(part: Part): Part {
    this.onStop(() => part.stop());
    return part;
  }

  onStop(close: () => Promise<void>): void {
    this.#closers.push(close);
  }

  async stop(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close();
  }
}
