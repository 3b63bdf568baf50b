/** Keeps claims in a store that gates on several machines share, by the common rules and the store's own clock. */
import { type Hex, isHash32, randomBytes, toHex, Unavailable } from "../../protocol";
import { HOUR_SEC } from "../../protocol/time";
import { type AtomicStore, type CellChange, guardCells } from "../stores/atomic-store";
import { lineOfRecord, recordOfLine } from "./claim-line";
import {
  applyClaim,
  type ClaimAct,
  type ClaimRecord,
  type ClaimStore,
  isHeldAfter,
  outcomeFor,
  type StoredAnswer,
  servedOf,
} from "./rules";

/** Chain time may run behind the store's. */
const MARGIN_SEC = HOUR_SEC;

const MAX_TRIES = 20;

/** A key that no claim has: claims are keyed by hash. */
const GRANT_KEY = "grant-key";

/** A cell that is written only to check that the store accepts writes. */
const READY = "ready";

export interface SharedClaimsOptions {
  /** how long an answer about the store's time is good; default a minute */
  readonly clockAgeMs?: number;
}

/** In its claim's slot: a cluster changes both atomically only within one slot. */
const answerKey = (paymentId: Hex): string => `answer@${paymentId}`;

const answerCell = (paymentId: Hex, { text, keepSec }: StoredAnswer): CellChange => ({
  key: answerKey(paymentId),
  expected: undefined,
  next: text,
  keepSec,
});

export function sharedClaims(store: AtomicStore, { clockAgeMs }: SharedClaimsOptions = {}): ClaimStore {
  const cells = guardCells(store, { what: "The claim store", ...(clockAgeMs === undefined ? {} : { clockAgeMs }) });
  /** the last texts of the claims that this process holds: their next change needs no read */
  const own = new Map<Hex, string>();
  let grantKey: Promise<Hex> | undefined;

  interface Kept {
    readonly keepSec?: number;
    readonly answer?: StoredAnswer | undefined;
  }

  async function change(paymentId: Hex, given: ClaimAct, { keepSec, answer }: Kept = {}) {
    const nowMs = await cells.nowMs();
    const act: ClaimAct = given.act === "claim" || given.act === "renew" ? { ...given, nowMs } : given;
    let current = own.get(paymentId);
    if (current === undefined && act.act !== "claim") [current] = await cells.read([paymentId]);
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const record = current === undefined ? undefined : recordOfLine(current);
      const changed = applyClaim(record, act);
      // A withdrawn claim leaves a free record rather than none: the next claim treats them alike.
      const next = changed ?? (record && { ...record, state: "free" as const, owner: "" });
      if (next === undefined || next === record) return remember(paymentId, act, current, record);
      const text = lineOfRecord(paymentId, next);
      const made = await cells.compareAndSwap([
        { key: paymentId, expected: current, next: text, ...(keepSec ? { keepSec } : {}) },
        // Not again after a failure: an answer of a claim that has expired may still be there.
        ...(answer && tries === 0 ? [answerCell(paymentId, answer)] : []),
      ]);
      if (made) return remember(paymentId, act, text, next);
      [current] = await cells.read([paymentId]);
    }
    throw new Unavailable("The claim store is contended.", { retryAfterSec: 1 });
  }

  function remember(paymentId: Hex, act: ClaimAct, text: string | undefined, record: ClaimRecord | undefined) {
    if (record?.state === "running" && record.owner === act.owner && text) own.set(paymentId, text);
    else if (act.act !== "claim") own.delete(paymentId);
    return record;
  }

  /** Reads the grant key; the first gate creates it for all. */
  async function readGrantKey(): Promise<Hex> {
    const made = toHex(randomBytes(32));
    await cells.compareAndSwap([{ key: GRANT_KEY, expected: undefined, next: made }]);
    const [stored] = await cells.read([GRANT_KEY]);
    if (stored !== undefined && isHash32(stored)) return stored;
    throw new Unavailable("The claim store's grant key cannot be read.", { retryAfterSec: 1 });
  }

  return {
    async claim(paymentId, act, nowSec) {
      const record = await change(paymentId, act, { keepSec: Math.max(0, act.keepUntilSec - nowSec) + MARGIN_SEC });
      return outcomeFor(act.owner, record, await cells.nowMs());
    },
    async apply(paymentId, act, answer) {
      return isHeldAfter(act, await change(paymentId, act, act.act === "use" ? { answer } : {}));
    },
    async served(paymentId) {
      const [claim, answer] = await cells.read([paymentId, answerKey(paymentId)]);
      return servedOf(claim === undefined ? undefined : recordOfLine(claim), () => answer);
    },
    closesForRefund: true,
    grantKey() {
      grantKey ??= readGrantKey().catch((error: unknown) => {
        grantKey = undefined;
        throw error;
      });
      return grantKey;
    },
    async ready() {
      const [current] = await cells.read([READY]);
      // Another gate may have written meanwhile: that also shows that the store accepts writes.
      const next = String(await cells.nowMs());
      await cells.compareAndSwap([{ key: READY, expected: current, next, keepSec: MARGIN_SEC }]);
    },
    async close() {},
  };
}
