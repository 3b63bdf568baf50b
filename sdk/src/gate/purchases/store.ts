/** Keeps what is recorded of payments in cells, by the common rules and the clock of the cells. */
import { ConfigError, type Hex, isHash32, randomBytes, toHex, Unavailable } from "../../protocol";
import { aNumber, aText, optionsOf } from "../../protocol/arguments";
import { HOUR_SEC } from "../../protocol/periods";
import { type AskedChange, answerKey, type Cells, memoryCells } from "../cells/cells";
import { LogCells } from "../cells/log";
import {
  applyClaim,
  type ClaimAct,
  type ClaimRecord,
  type ClaimStore,
  type FactsOfPayment,
  factsOfText,
  isHeldAfter,
  type KeptUntil,
  noteFact,
  outcomeFor,
  pinNameOf,
  recordOfText,
  type StoredAnswer,
  servedOf,
  textOfFacts,
  textOfRecord,
} from "./record";

/** Chain time may run behind the store's. */
const MARGIN_SEC = HOUR_SEC;

const MAX_TRIES = 20;

/** A key that no claim has: claims are keyed by hash. */
export const GRANT_KEY = "grant-key";

/** How long the grant key is used before it is read again: a store that lost its contents has another one. */
const GRANT_KEY_AGE_MS = 2_000;

const LOST =
  "Turnpike: the claim store has lost what it held. Payment proofs that were used before can be presented once more, and x402 payments that were in progress are refused: find out why, and read docs/guides/several-gates.md.";

/** How errors and logs name it. */
export const CLAIM_STORE = "The claim store";

export interface ClaimsOptions {
  /** how long the grant key is used before it is read again; default two seconds */
  readonly grantKeyAgeMs?: number;
}

/** @param before the answer of a claim that has expired, or of none */
const answerCell = (of: Hex, { text, keepSec, nowMs }: StoredAnswer, before: string | undefined): AskedChange => ({
  key: answerKey(of),
  expected: before,
  next: text,
  keepSec,
  untilSec: nowMs / 1_000 + keepSec,
});

/** @throws Unavailable for a text of a later version: like none, it would be sold once more */
function readRecord(text: string | undefined): ClaimRecord | undefined {
  const record = text === undefined ? undefined : recordOfText(text);
  if (record || text === undefined) return record;
  throw unreadable();
}

const NO_FACTS: FactsOfPayment = new Map();

/** @throws Unavailable, as above: like none, another amount would be charged */
function readFacts(text: string | undefined): FactsOfPayment {
  const facts = text === undefined ? NO_FACTS : factsOfText(text);
  if (facts) return facts;
  throw unreadable();
}

const unreadable = (): Unavailable =>
  new Unavailable("The claim store has a record that cannot be read.", { retryAfterSec: 30 });

const contended = (): Unavailable => new Unavailable("The claim store is contended.", { retryAfterSec: 1 });

/** Where the facts of a payment's purchases are. */
const factsKey = (paymentId: Hex): string => `facts@${paymentId}`;

const kept = ({ keepUntilSec, nowSec }: KeptUntil) => ({
  keepSec: Math.max(0, keepUntilSec - nowSec) + MARGIN_SEC,
  untilSec: keepUntilSec,
});

export function claimsOn(cells: Cells, { grantKeyAgeMs = GRANT_KEY_AGE_MS }: ClaimsOptions = {}): ClaimStore {
  /** the last texts of the claims that this process holds: their next change needs no read */
  const own = new Map<Hex, string>();
  let grantKey: { readonly key: Promise<Hex>; readonly atMs: number } | undefined;
  let lastGrantKey: Hex | undefined;

  interface Kept {
    readonly keepSec?: number;
    readonly nowSec?: number;
    readonly answer?: StoredAnswer | undefined;
  }

  /** Where machines share the cells, their clocks differ. */
  async function timed<A extends ClaimAct>(act: A): Promise<A> {
    if (cells.isLocal || (act.act !== "claim" && act.act !== "renew")) return act;
    return { ...act, nowMs: await cells.nowMs() };
  }

  async function change(paymentId: Hex, act: ClaimAct, { keepSec, nowSec = 0, answer }: Kept = {}) {
    const nowMs = answer?.nowMs;
    let current = own.get(paymentId);
    if (current === undefined && act.act !== "claim") [current] = await cells.read([paymentId]);
    let answered: string | undefined;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const record = readRecord(current);
      const changed = applyClaim(record, act);
      // Servers' cells are not deleted: a withdrawn claim leaves a free record, which the next claim treats like none.
      const next = changed ?? (cells.isLocal ? undefined : record && { ...record, state: "free" as const, owner: "" });
      if (next === record) return remember(paymentId, act, current, record);
      const text = next && textOfRecord(cells.isLocal ? undefined : paymentId, next);
      const changes: AskedChange[] = [
        { key: paymentId, expected: current, next: text, keepSec, untilSec: next?.keepUntilSec },
      ];
      if (answer) changes.push(answerCell(paymentId, answer, answered));
      if (await cells.swap(changes, { nowMs, nowSec })) return remember(paymentId, act, text, next);
      [current, answered] = await cells.read([paymentId, answerKey(paymentId)]);
    }
    throw contended();
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
      await cells.swap([{ key: GRANT_KEY, expected: undefined, next: toHex(randomBytes(32)) }]);
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
      await cells.swap([{ key, expected: undefined, next: await first() }]);
      const [stored] = await cells.read([key]);
      if (stored !== undefined) return stored;
      throw new Unavailable("The claim store keeps no pin.", { retryAfterSec: 1 });
    },
    async claim(paymentId, given, nowSec) {
      const act = await timed(given);
      const keepSec = Math.max(0, act.keepUntilSec - nowSec) + MARGIN_SEC;
      const record = await change(paymentId, act, { keepSec, nowSec });
      return outcomeFor(act.owner, record, act.nowMs);
    },
    async apply(paymentId, act, answer) {
      return isHeldAfter(act, await change(paymentId, await timed(act), act.act === "use" ? { answer } : {}));
    },
    async served(paymentId, nowMs) {
      const [claim, answer] = await cells.read([paymentId, answerKey(paymentId)], nowMs);
      return servedOf(readRecord(claim), () => answer);
    },
    async facts(paymentId) {
      const [text] = await cells.read([factsKey(paymentId)]);
      return readFacts(text);
    },
    async note(paymentId, grantId, fact, until) {
      const key = factsKey(paymentId);
      for (let tries = 0; tries < MAX_TRIES; tries++) {
        const [expected] = await cells.read([key]);
        const facts = noteFact(readFacts(expected), grantId, fact);
        const next = textOfFacts(facts);
        const isMade =
          next === expected || (await cells.swap([{ key, expected, next, ...kept(until) }], { nowSec: until.nowSec }));
        if (isMade) return facts.get(grantId) ?? {};
      }
      throw contended();
    },
    async shelve(grantId, answer) {
      for (let tries = 0; tries < MAX_TRIES; tries++) {
        const [before] = await cells.read([answerKey(grantId)], answer.nowMs);
        if (await cells.swap([answerCell(grantId, answer, before)], { nowMs: answer.nowMs })) return;
      }
      throw contended();
    },
    async shelved(grantId, nowMs) {
      const [text] = await cells.read([answerKey(grantId)], nowMs);
      return text;
    },
    async first(key, text, until) {
      const isFirst = await cells.swap([{ key, expected: undefined, next: text, ...kept(until) }], {
        nowSec: until.nowSec,
      });
      if (isFirst) return text;
      const [stored] = await cells.read([key]);
      if (stored !== undefined) return stored;
      throw contended();
    },
    grantKey() {
      if (grantKey && performance.now() - grantKey.atMs < grantKeyAgeMs) return grantKey.key;
      const key = readGrantKey().catch((error: unknown) => {
        grantKey = undefined;
        throw error;
      });
      grantKey = { key, atMs: performance.now() };
      return key;
    },
    ready: () => cells.ready(),
    close: () => cells.close(),
  };
}

/** Claims that end with the process: for tests. A gate warns of it in production. */
export function memoryClaims({ warn = true }: { readonly warn?: boolean } = {}): ClaimStore {
  if (warn) process.emitWarning("Turnpike keeps claims in memory: used payments work again after a restart.");
  // In memory nothing lasts, so nothing is pinned.
  const { pinned: _, ...claims } = claimsOn(memoryCells());
  return claims;
}

export interface FileClaimsOptions {
  /** created when absent, readable by its owner only */
  readonly folder: string;
  /** how much a file may grow beyond its living records, at least; default 16 MiB */
  readonly rotateBytes?: number;
  /**
   * how much space all kept answers may take, bytes; default 700 MiB. The oldest are deleted first, also where the disk
   * is full: claims need it more
   */
  readonly answersBytes?: number;
}

const MIB = 1_024 * 1_024;

/** The name of the log. */
export const CLAIM_LOG = "gate";

const isEarlier = (file: string): boolean => /^(?:claims-[0-9]+\.log|grant\.key)$/.test(file);

const checkOptions = optionsOf<FileClaimsOptions>({ folder: aText, rotateBytes: aNumber, answersBytes: aNumber }, [
  "folder",
]);

/** @throws ConfigError when the folder cannot be used */
export function fileClaims(options: FileClaimsOptions): ClaimStore {
  checkOptions(options, "");
  const { folder, rotateBytes = 16 * MIB, answersBytes = 700 * MIB } = options;
  if (!Number.isSafeInteger(answersBytes) || answersBytes < 0) {
    throw new ConfigError(`claims: answersBytes is ${answersBytes}; use a whole number of bytes`);
  }
  const cells = new LogCells({ folder, name: CLAIM_LOG, what: "claims", isEarlier, rotateBytes, answersBytes });
  cells.open();
  return claimsOn(cells);
}
