/**
 * Subscriptions that have just changed: for a while a refusal of them may be the gate's old knowledge, and is retried
 * rather than paid around. Knows no gate.
 */
import type { Hex } from "../protocol";

/** `status`: it has just become active. `terms`: its cap or plan has just changed. */
type Change = "status" | "terms";

export class Fresh {
  readonly #marks = new Map<Hex, { readonly untilMs: number; readonly change: Change }>();
  readonly #freshMs: number;

  constructor(freshMs: number) {
    this.#freshMs = freshMs;
  }

  mark(idHash: Hex, change: Change): void {
    this.#marks.set(idHash, { untilMs: performance.now() + this.#freshMs, change });
  }

  /** It was served: the gate knows that it is active. Of a new cap that proves nothing. */
  granted(idHash: Hex): void {
    if (this.#marks.get(idHash)?.change === "status") this.#marks.delete(idHash);
  }

  /** Whether a refusal of any of these may be out of date. */
  has(entries: readonly { readonly id: Hex }[]): boolean {
    return entries.some(({ id }) => (this.#marks.get(id)?.untilMs ?? 0) > performance.now());
  }
}
