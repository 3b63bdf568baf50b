/** The example provider, which a test can stop and start again at the same address. */
import { type ExampleProviderOptions, type RunningProvider, startProvider } from "../../examples/provider";
import { type Restartable, restartable } from "./restartable";

export class ExampleProvider {
  #running: RunningProvider | undefined;

  /** Starts the provider. @returns how to stop and restart it */
  start(options: ExampleProviderOptions): Promise<Restartable> {
    return restartable(async () => {
      const started = await startProvider(options);
      this.#running = started;
      return {
        stop: () => {
          this.#running = undefined;
          return started.stop();
        },
      };
    });
  }

  /** Flushes the provider, if it runs. */
  async flush(): Promise<void> {
    return this.#running?.flush();
  }
}
