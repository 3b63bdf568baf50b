/** Keeps what has started, and stops it in reverse order. */
export class StartedParts {
  readonly #closers: (() => Promise<void>)[] = [];

  /** Adds a part that runs. @returns the part */
  add<Part extends { stop(): Promise<void> }>(part: Part): Part {
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
