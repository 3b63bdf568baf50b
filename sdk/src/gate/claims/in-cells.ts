/** Claims in a store that gates on several machines share. The rules are the ones of every store; the time is the store's. */
import { type Hex, Unavailable } from "../../protocol";
import { type CellStore, guardCells } from "../shared/cells";
import { lineOfRecord, recordOfLine } from "./claim-line";
import { applyClaim, type ClaimAct, type ClaimRecord, type ClaimStore, isHeldAfter, outcomeFor } from "./rules";

/** Chain time may run behind the store's. */
const MARGIN_SEC = 3_600;
const MAX_TRIES = 20;
/** A cell that says no more than that it could be written. */
const READY = "ready";

export interface SharedClaimsOptions {
  /** how long an answer about the store's time is good; default a minute */
  readonly clockAgeMs?: number;
}

export function sharedClaims(store: CellStore, { clockAgeMs }: SharedClaimsOptions = {}): ClaimStore {
  const cells = guardCells(store, { what: "The claim store", ...(clockAgeMs === undefined ? {} : { clockAgeMs }) });
  /** what this process wrote last of the claims that it holds: their next change needs no reading */
  const own = new Map<Hex, string>();

  async function change(paymentId: Hex, given: ClaimAct, keepSec?: number): Promise<ClaimRecord | undefined> {
    const nowMs = await cells.nowMs();
    const act: ClaimAct = given.act === "claim" || given.act === "renew" ? { ...given, nowMs } : given;
    let current = own.get(paymentId);
    if (current === undefined && act.act !== "claim") [current] = await cells.read([paymentId]);
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const record = current === undefined ? undefined : recordOfLine(current);
      const changed = applyClaim(record, act);
      // A withdrawn claim leaves a free record behind rather than none: the same to whoever claims it next.
      const next = changed ?? (record && { ...record, state: "free" as const, owner: "" });
      if (next === undefined || next === record) return remember(paymentId, act, current, record);
      const text = lineOfRecord(paymentId, next);
      const made = await cells.swap([
        { key: paymentId, expected: current, next: text, ...(keepSec ? { keepSec } : {}) },
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

  return {
    async claim(paymentId, act, nowSec) {
      const record = await change(paymentId, act, Math.max(0, act.keepUntilSec - nowSec) + MARGIN_SEC);
      return outcomeFor(act.owner, record, await cells.nowMs());
    },
    async apply(paymentId, act) {
      return isHeldAfter(act, await change(paymentId, act));
    },
    async ready() {
      const [current] = await cells.read([READY]);
      // Another gate may have written meanwhile: that the store takes writes is what is wanted.
      const next = String(await cells.nowMs());
      await cells.swap([{ key: READY, expected: current, next, keepSec: MARGIN_SEC }]);
    },
    async close() {},
  };
}
