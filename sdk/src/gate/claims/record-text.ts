/** Encodes a claim as the text of its cell. */
import type { Hex } from "../../protocol";
import type { ClaimRecord } from "./rules";

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
