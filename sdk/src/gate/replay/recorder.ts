/** Copies a body as it passes, up to a limit. */

/** One body's copy. */
export class Recorder {
  readonly #maxBytes: number;
  #chunks: Uint8Array[] = [];
  #bytes = 0;
  #isWhole = true;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** whether everything that passed is still here */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  get bytes(): number {
    return this.#bytes;
  }

  push(chunk: Uint8Array): void {
    if (!this.#isWhole) return;
    this.#bytes += chunk.byteLength;
    if (this.#bytes > this.#maxBytes) this.stop();
    else this.#chunks.push(chunk);
  }

  stop(): void {
    this.#isWhole = false;
    this.#chunks = [];
  }

  body(): Uint8Array {
    return Buffer.concat(this.#chunks);
  }
}

/** A body that takes longer than this after its first byte is a stream, which is not kept. */
export const STREAM_MS = 60_000;
