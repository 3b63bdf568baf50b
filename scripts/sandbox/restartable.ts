/** Runs a server that can stop and restart at the same address. */
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
