/** Keeps claims in memory, for tests. After a restart every proof could be used once more. */
import { type Hex, randomBytes, toHex } from "../../protocol";
import {
  applyClaim,
  type ClaimRecord,
  type ClaimStore,
  isHeldAfter,
  outcomeFor,
  type StoredAnswer,
  servedOf,
} from "./rules";

const FORGET_EVERY = 1_000;

/** Claims that end with the process: for tests. A gate warns of it in production. */
export function memoryClaims({ warn = true }: { readonly warn?: boolean } = {}): ClaimStore {
  if (warn) process.emitWarning("Turnpike keeps claims in memory: used payments work again after a restart.");
  const records = new Map<Hex, ClaimRecord>();
  const grantKey = toHex(randomBytes(32));
  const answers = memoryAnswers();
  let claims = 0;
  return {
    async claim(paymentId, act, nowSec) {
      if (++claims % FORGET_EVERY === 0) forget(records, nowSec);
      const record = applyClaim(records.get(paymentId), act);
      if (record) records.set(paymentId, record);
      return outcomeFor(act.owner, record, act.nowMs);
    },
    async apply(paymentId, act, answer) {
      const record = applyClaim(records.get(paymentId), act);
      if (record) records.set(paymentId, record);
      else records.delete(paymentId);
      const isHeld = isHeldAfter(act, record);
      if (isHeld && act.act === "use" && answer) answers.keep(paymentId, answer);
      return isHeld;
    },
    async served(paymentId, nowMs) {
      return servedOf(records.get(paymentId), () => answers.find(paymentId, nowMs));
    },
    closesForRefund: true,
    async grantKey() {
      return grantKey;
    },
    async close() {},
  };
}

/** Deletes expired records, by chain time, which a store may lag behind but never leads. */
export function forget(records: Map<Hex, ClaimRecord>, nowSec: number): void {
  for (const [paymentId, record] of records) if (record.keepUntilSec < nowSec) records.delete(paymentId);
}

const MAX_CHARS = 64 * 1_024 * 1_024;

interface MemoryAnswers {
  keep(paymentId: Hex, answer: StoredAnswer): void;
  find(paymentId: Hex, nowMs: number): string | undefined;
}

/** Keeps answers in memory: bounded in bytes, the oldest evicted first. */
function memoryAnswers(maxChars = MAX_CHARS): MemoryAnswers {
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
