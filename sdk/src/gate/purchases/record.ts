/**
 * Defines what is recorded of a payment, and writes it as the texts of its cells. Its claim: `running` under a lease while
 * one request uses the payment, then `used`; or `free` again when its handler failed, at most three times; or `refund` for
 * good, when it is to be refunded instead. And facts of each purchase that it was presented for. Pure, so that every store
 * applies the same rules.
 */
import { type Hex, isHash32, keccakText, parseAmount, Unavailable } from "../../protocol";
import { anObject, isObject, kind } from "../../protocol/arguments";
import { parseStrictJson } from "../../protocol/headers";

/** How often one payment may be released by handlers that fail. */
export const MAX_RELEASES = 3;

/** What a store keeps of one payment. */
export interface ClaimRecord {
  readonly state: "running" | "free" | "used" | "refund";
  /** whose request runs it: a fresh random name per attempt */
  readonly owner: string;
  /** unix milliseconds, of the machine's clock */
  readonly leaseUntilMs: number;
  readonly releases: number;
  /** unix seconds, chain time: when this record may be forgotten */
  readonly keepUntilSec: number;
}

/** One change of a claim. */
export type ClaimAct =
  | {
      readonly act: "claim";
      readonly owner: string;
      readonly nowMs: number;
      readonly leaseMs: number;
      readonly keepUntilSec: number;
    }
  | { readonly act: "renew"; readonly owner: string; readonly nowMs: number; readonly leaseMs: number }
  /** served, or not to be served again */
  | { readonly act: "use"; readonly owner: string }
  /** the handler failed, and the payment is refunded: it is never served again */
  | { readonly act: "refund"; readonly owner: string }
  /** the handler failed before any body byte */
  | { readonly act: "release"; readonly owner: string }
  /** nothing was run: the payment itself did not hold. Does not count as a release. */
  | { readonly act: "withdraw"; readonly owner: string };

/** Applies an act to a claim. Pure: every store applies this one rule. */
export function applyClaim(record: ClaimRecord | undefined, act: ClaimAct): ClaimRecord | undefined {
  anObject(act, "act");
  if (act.act === "claim") return claim(record, act);
  if (record?.state !== "running" || record.owner !== act.owner) return record;
  switch (act.act) {
    case "renew":
      return { ...record, leaseUntilMs: Math.max(record.leaseUntilMs, act.nowMs + act.leaseMs) };
    case "use":
      return { ...record, state: "used" };
    case "refund":
      return { ...record, state: "refund" };
    case "release":
      return released(record);
    case "withdraw":
      return record.releases > 0 ? { ...record, state: "free", owner: "" } : undefined;
  }
}

function claim(record: ClaimRecord | undefined, act: Extract<ClaimAct, { act: "claim" }>): ClaimRecord {
  const { owner, nowMs, leaseMs, keepUntilSec } = act;
  const lapsed = record?.state === "running" && record.leaseUntilMs <= nowMs;
  const before = record && lapsed ? released(record) : record;
  if (before && before.state !== "free") return before;
  return {
    state: "running",
    owner,
    leaseUntilMs: nowMs + leaseMs,
    releases: before?.releases ?? 0,
    keepUntilSec: Math.max(before?.keepUntilSec ?? 0, keepUntilSec),
  };
}

function released(record: ClaimRecord): ClaimRecord {
  if (record.releases >= MAX_RELEASES) return { ...record, state: "used" };
  return { ...record, state: "free", owner: "", releases: record.releases + 1 };
}

/** Returns whether the owner still held the claim: `use`, `refund` and `renew` leave its name on the record. */
export function isHeldAfter(given: ClaimAct, record: ClaimRecord | undefined): boolean {
  anObject(given, "act");
  const { act, owner } = given;
  if (act === "release" || act === "withdraw" || act === "claim") return true;
  return record !== undefined && record.owner === owner && (record.state === "refund") === (act === "refund");
}

/** The result of an attempt to claim a payment. */
export type ClaimOutcome =
  /** releases: how many requests of this payment ended without a result, by failure or by death */
  | { readonly kind: "acquired"; readonly releases: number }
  | { readonly kind: "running"; readonly retryAfterSec: number }
  /** isForRefund: it was closed for a refund, and has bought nothing */
  | { readonly kind: "used"; readonly isForRefund?: boolean };

/**
 * When another request may ask for a payment that is in use, seconds. A settlement takes about a block, and the end of a
 * lease says nothing: it is renewed while the payment is in use.
 */
const ASK_AGAIN_SEC = 2;

/** Derives the result of an attempt from the claim's record. */
export function outcomeFor(owner: string, record: ClaimRecord | undefined, nowMs: number): ClaimOutcome {
  if (record?.state === "running" && record.owner === owner) return { kind: "acquired", releases: record.releases };
  if (record?.state === "refund") return { kind: "used", isForRefund: true };
  if (record?.state !== "running") return { kind: "used" };
  const leftSec = Math.ceil((record.leaseUntilMs - nowMs) / 1_000);
  return { kind: "running", retryAfterSec: Math.min(ASK_AGAIN_SEC, Math.max(1, leftSec)) };
}

/**
 * What is known of one purchase, by its grant id: the payment presented for this request. It outlives every run of the
 * handler, and another purchase of the same payment has its own.
 */
export interface PurchaseFacts {
  /** the payment had bought nothing elsewhere when it came here first */
  readonly unusedAtFirst?: true;
  /** what an `upto` payment is charged, base units: the same after a crash */
  readonly charged?: bigint;
}

/** A payment that is presented under ever new keys fills no store. */
const MAX_PURCHASES = 16;

/** The facts of a payment's purchases, by grant id. */
export type FactsOfPayment = ReadonlyMap<Hex, PurchaseFacts>;

const aMap = kind("a Map of facts by grant id", (value) => value instanceof Map);

/**
 * Adds to what is known of a purchase: of two facts of one kind the first counts.
 * @throws Unavailable for the seventeenth purchase of one payment
 */
export function noteFact(known: FactsOfPayment, grantId: Hex, fact: PurchaseFacts): FactsOfPayment {
  aMap(known, "known");
  anObject(fact, "fact");
  const before = known.get(grantId);
  if (!before && known.size >= MAX_PURCHASES) {
    throw new Unavailable("This payment was presented for too many purchases.", { retryAfterSec: 60 });
  }
  return new Map(known).set(grantId, { ...fact, ...before });
}

/** When a record may be forgotten. */
export interface KeptUntil {
  /** unix seconds, chain time */
  readonly keepUntilSec: number;
  /** unix seconds, chain time: what had to be kept until before it is forgotten */
  readonly nowSec: number;
}

/** The sealed answer to a purchase, as a store keeps it: printable ASCII without spaces and semicolons. */
export interface StoredAnswer {
  readonly text: string;
  /** unix milliseconds, of the machine's clock */
  readonly nowMs: number;
  readonly keepSec: number;
}

/** What a store knows of a payment that is used, or closed for a refund. */
export interface ServedClaim {
  /** undefined: none was kept, or it has expired */
  readonly answer: string | undefined;
  readonly isForRefund?: boolean;
}

/** Returns what `served` answers for a record. @param answer reads the one that was kept */
export function servedOf(
  record: ClaimRecord | undefined,
  answer: (used: ClaimRecord) => string | undefined,
): ServedClaim | undefined {
  if (record?.state === "refund") return { answer: undefined, isForRefund: true };
  return record?.state === "used" ? { answer: answer(record) } : undefined;
}

/** Returns the key of a pin: a name holds a URL, which no file or key may be named after. */
export const pinNameOf = (name: string): string => `pin-${keccakText(name).slice(2)}`;

/**
 * Where payments are recorded. Gates that share a resource share a store. Each call is atomic among all of them.
 * Every method rejects with Unavailable when the store cannot answer.
 */
export interface ClaimStore {
  /**
   * Claims a payment for one request.
   * @param nowSec chain time, by which records past their `keepUntilSec` are forgotten
   */
  claim(paymentId: Hex, act: Extract<ClaimAct, { act: "claim" }>, nowSec: number): Promise<ClaimOutcome>;
  /**
   * Applies the rule; an owner that no longer holds the claim changes nothing.
   * @param answer of "use": kept with the claim, both or neither
   * @returns for "use", "refund" and "renew" whether the owner still held it: false, and the request must not be served
   */
  apply(paymentId: Hex, act: Exclude<ClaimAct, { act: "claim" }>, answer?: StoredAnswer): Promise<boolean>;
  /**
   * Returns whether a payment is used, and the answer that was kept with it until it expires.
   * @param nowMs of the machine's clock, by which answers are forgotten
   */
  served(paymentId: Hex, nowMs: number): Promise<ServedClaim | undefined>;
  /** Returns what is known of a payment's purchases, by grant id. */
  facts(paymentId: Hex): Promise<FactsOfPayment>;
  /** Notes a fact of a purchase, by the rule of `noteFact`. @returns what is known of it then */
  note(paymentId: Hex, grantId: Hex, fact: PurchaseFacts, until: KeptUntil): Promise<PurchaseFacts>;
  /** Keeps the answer to a purchase that has not settled yet, in place of an earlier one. */
  shelve(grantId: Hex, answer: StoredAnswer): Promise<void>;
  /** Returns the answer on the shelf. @param nowMs of the machine's clock, by which answers are forgotten */
  shelved(grantId: Hex, nowMs: number): Promise<string | undefined>;
  /** Keeps a text under a key where there is none. @returns the text that is there: the first */
  first(key: Hex, text: string, until: KeptUntil): Promise<string>;
  /**
   * Returns the store's own secret (0x and 64 hex digits): made at random on first use, kept as long as the store, and
   * the same for every gate that shares it. Facilitators grant payments to ids that are derived from it.
   */
  grantKey(): Promise<Hex>;
  /**
   * Returns the text that is pinned under a name: what `first` resolves to where none is, for as long as the store lasts
   * and the same for every gate that shares it. A store that does not last pins nothing: it lacks this method.
   */
  pinned?(name: string, first: () => Promise<string>): Promise<string>;
  /** Rejects when a claim could not be written now: a gate quotes no price meanwhile. */
  ready(): Promise<void>;
  /** Releases the store's resources. */
  close(): Promise<void>;
}

const RECORD =
  /^S (?:0x[0-9a-f]{64} )?(running|free|used|refund) ([A-Za-z0-9_-]{0,22}) ([0-9]{1,16}) ([0-9]{1,16}) ([0-9]{1,16});$/;

/** @param paymentId undefined: it is the key of the cell */
export function textOfRecord(paymentId: Hex | undefined, record: ClaimRecord): string {
  const { state, owner, leaseUntilMs, releases, keepUntilSec } = record;
  const named = paymentId === undefined ? "" : `${paymentId} `;
  return `S ${named}${state} ${owner} ${leaseUntilMs} ${releases} ${keepUntilSec};`;
}

export function recordOfText(text: string): ClaimRecord | undefined {
  const stored = RECORD.exec(text);
  if (!stored) return undefined;
  const [, state, owner, leaseUntilMs, releases, keepUntilSec] = stored;
  return {
    state: state as ClaimRecord["state"],
    owner: owner ?? "",
    leaseUntilMs: Number(leaseUntilMs),
    releases: Number(releases),
    keepUntilSec: Number(keepUntilSec),
  };
}

export function textOfFacts(facts: FactsOfPayment): string {
  const written = [...facts].map(([grantId, { unusedAtFirst, charged }]) => [
    grantId,
    { unusedAtFirst, charged: charged?.toString() },
  ]);
  return JSON.stringify(Object.fromEntries(written));
}

export function factsOfText(text: string): FactsOfPayment | undefined {
  const written = parseStrictJson(text);
  if (!isObject(written)) return undefined;
  const facts = new Map<Hex, PurchaseFacts>();
  for (const [grantId, { unusedAtFirst, charged }] of Object.entries(
    written as Record<string, Record<string, unknown>>,
  )) {
    const amount = charged === undefined ? undefined : parseAmount(charged);
    if (!isHash32(grantId) || (charged !== undefined && amount === undefined)) return undefined;
    facts.set(grantId, {
      ...(unusedAtFirst === true && { unusedAtFirst }),
      ...(amount !== undefined && { charged: amount }),
    });
  }
  return facts;
}
