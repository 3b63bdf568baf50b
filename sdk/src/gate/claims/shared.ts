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
  pinNameOf,
  type StoredAnswer,
  servedOf,
} from "./rules";

/** Chain time may run behind the store's. */
const MARGIN_SEC = HOUR_SEC;

const MAX_TRIES = 20;

/** A key that no claim has: claims are keyed by hash. */
const GRANT_KEY = "grant-key";

/** How long the grant key is used before it is read again: a store that lost its contents has another one. */
const GRANT_KEY_AGE_MS = 2_000;

const LOST =
  "Turnpike: the claim store has lost what it held. Payment proofs that were used before can be presented once more, and x402 payments that were in progress are refused: find out why, and read docs/guides/several-gates.md.";

/** A cell that is written only to check that the store accepts writes. */
const READY = "ready";

export interface SharedClaimsOptions {
  /** how long an answer about the store's time is good; default a minute */
  readonly clockAgeMs?: number;
  /** how long the grant key is used before it is read again; default two seconds */
  readonly grantKeyAgeMs?: number;
}

/** In its claim's slot: a cluster changes both atomically only within one slot. */
const answerKey = (paymentId: Hex): string => `answer@${paymentId}`;

/** @param before the answer of a claim that has expired, or of none */
const answerCell = (paymentId: Hex, { text, keepSec }: StoredAnswer, before: string | undefined): CellChange => ({
  key: answerKey(paymentId),
  expected: before,
  next: text,
  keepSec,
});

export function sharedClaims(
  store: AtomicStore,
  { clockAgeMs, grantKeyAgeMs = GRANT_KEY_AGE_MS }: SharedClaimsOptions = {},
): ClaimStore {
  const cells = guardCells(store, { what: "The claim store", ...(clockAgeMs === undefined ? {} : { clockAgeMs }) });
  /** the last texts of the claims that this process holds: their next change needs no read */
  const own = new Map<Hex, string>();
  let grantKey: { readonly key: Promise<Hex>; readonly atMs: number } | undefined;
  let lastGrantKey: Hex | undefined;

  interface Kept {
    readonly keepSec?: number;
    readonly answer?: StoredAnswer | undefined;
  }

  async function change(paymentId: Hex, given: ClaimAct, { keepSec, answer }: Kept = {}) {
    const nowMs = await cells.nowMs();
    const act: ClaimAct = given.act === "claim" || given.act === "renew" ? { ...given, nowMs } : given;
    let current = own.get(paymentId);
    if (current === undefined && act.act !== "claim") [current] = await cells.read([paymentId]);
    let answered: string | undefined;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const record = current === undefined ? undefined : recordOfLine(current);
      const changed = applyClaim(record, act);
      // A withdrawn claim leaves a free record rather than none: the next claim treats them alike.
      const next = changed ?? (record && { ...record, state: "free" as const, owner: "" });
      if (next === undefined || next === record) return remember(paymentId, act, current, record);
      const text = lineOfRecord(paymentId, next);
      const made = await cells.compareAndSwap([
        { key: paymentId, expected: current, next: text, ...(keepSec ? { keepSec } : {}) },
        ...(answer ? [answerCell(paymentId, answer, answered)] : []),
      ]);
      if (made) return remember(paymentId, act, text, next);
      [current, answered] = await cells.read([paymentId, answerKey(paymentId)]);
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
    let [stored] = await cells.read([GRANT_KEY]);
    if (stored === undefined) {
      await cells.compareAndSwap([{ key: GRANT_KEY, expected: undefined, next: toHex(randomBytes(32)) }]);
      [stored] = await cells.read([GRANT_KEY]);
    }
    if (stored === undefined || !isHash32(stored)) {
      throw new Unavailable("The claim store's grant key cannot be read.", { retryAfterSec: 1 });
    }
    if (lastGrantKey !== undefined && lastGrantKey !== stored) process.emitWarning(LOST);
    lastGrantKey = stored;
    return stored;
  }

  return {
    async pinned(name, first) {
      const key = pinNameOf(name);
      const [before] = await cells.read([key]);
      if (before !== undefined) return before;
      await cells.compareAndSwap([{ key, expected: undefined, next: await first() }]);
      const [stored] = await cells.read([key]);
      if (stored !== undefined) return stored;
      throw new Unavailable("The claim store keeps no pin.", { retryAfterSec: 1 });
    },
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
      if (grantKey && performance.now() - grantKey.atMs < grantKeyAgeMs) return grantKey.key;
      const key = readGrantKey().catch((error: unknown) => {
        grantKey = undefined;
        throw error;
      });
      grantKey = { key, atMs: performance.now() };
      return key;
    },
    ready: () =>
      cells.checked(async () => {
        const [current] = await cells.read([READY]);
        // Another gate may have written meanwhile: that also shows that the store accepts writes.
        const next = String(await cells.nowMs());
        await cells.compareAndSwap([{ key: READY, expected: current, next, keepSec: MARGIN_SEC }]);
      }),
    async close() {},
  };
}
