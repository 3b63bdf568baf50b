/** The kept answers of one process: bounded in bytes, the oldest given up first. */
import type { Hex } from "../../protocol";
import type { StoredAnswer } from "./rules";

const MAX_CHARS = 64 * 1_024 * 1_024;

export interface MemoryAnswers {
  keep(paymentId: Hex, answer: StoredAnswer): void;
  find(paymentId: Hex, nowMs: number): string | undefined;
}

export function memoryAnswers(maxChars = MAX_CHARS): MemoryAnswers {
  const kept = new Map<Hex, { readonly text: string; readonly untilMs: number }>();
  let chars = 0;

  function forget(paymentId: Hex): void {
    chars -= kept.get(paymentId)?.text.length ?? 0;
    kept.delete(paymentId);
  }

  return {
    keep(paymentId, { text, nowMs, keepSec }) {
      forget(paymentId);
      kept.set(paymentId, { text, untilMs: nowMs + keepSec * 1_000 });
      chars += text.length;
      // In the order of their coming: the first that is still good ends the search.
      for (const [id, { untilMs }] of kept) {
        if (untilMs > nowMs && chars <= maxChars) break;
        forget(id);
      }
    },
    find(paymentId, nowMs) {
      const found = kept.get(paymentId);
      return found && found.untilMs > nowMs ? found.text : undefined;
    },
  };
}
