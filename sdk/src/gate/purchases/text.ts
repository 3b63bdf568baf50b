/** Encodes what is recorded of a payment as the texts of its cells. */
import { type Hex, isHash32, parseAmount } from "../../protocol";
import { isObject } from "../../protocol/arguments";
import { parseStrictJson } from "../../protocol/strict-json";
import type { ClaimRecord, FactsOfPayment, PurchaseFacts } from "./record";

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
