/** Keeps claims in memory, for tests. After a restart every proof could be used once more. */
import { type Hex, randomBytes, toHex } from "../../protocol";
import { memoryAnswers } from "./memory-answers";
import { applyClaim, type ClaimRecord, type ClaimStore, isHeldAfter, outcomeFor } from "./rules";

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
      return records.get(paymentId)?.state === "used" ? { answer: answers.find(paymentId, nowMs) } : undefined;
    },
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
