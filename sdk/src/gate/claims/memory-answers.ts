/** Keeps answers in memory: bounded in bytes, the oldest evicted first. */
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
      // In insertion order: the first that is still valid ends the search.
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
