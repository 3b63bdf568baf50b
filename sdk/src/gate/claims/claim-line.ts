/**
 * Encodes and replays the claim file's lines. Each begins with a line break and ends with `;`, so that a torn one is
 * detected and skipped.
 */
import type { Hex } from "../../protocol";
import { applyClaim, type ClaimAct, type ClaimRecord } from "./rules";

export const ROTATED = "R;";

const ID = "(0x[0-9a-f]{64})";

const OWNER = "([A-Za-z0-9_-]{0,22})";

const INT = "([0-9]{1,16})";

const ACT = new RegExp(`^A ${ID} (claim|renew|use|refund|release|withdraw) ${OWNER} ${INT} ${INT} ${INT};$`);

const RECORD = new RegExp(`^S ${ID} (running|free|used|refund) ${OWNER} ${INT} ${INT} ${INT};$`);

export function lineOfAct(paymentId: Hex, act: ClaimAct): string {
  const timed = act.act === "claim" || act.act === "renew" ? `${act.nowMs} ${act.leaseMs}` : "0 0";
  return `A ${paymentId} ${act.act} ${act.owner} ${timed} ${act.act === "claim" ? act.keepUntilSec : 0};`;
}

export function lineOfRecord(paymentId: Hex, record: ClaimRecord): string {
  const { state, owner, leaseUntilMs, releases, keepUntilSec } = record;
  return `S ${paymentId} ${state} ${owner} ${leaseUntilMs} ${releases} ${keepUntilSec};`;
}

/** Applies one line to the records. A line of neither form was torn, and its writer did not count it either. */
export function replayLine(records: Map<Hex, ClaimRecord>, line: string): void {
  const acted = ACT.exec(line);
  if (acted) {
    const [, id, act, owner, nowMs, leaseMs, keepUntilSec] = acted as unknown as [string, Hex, ...string[]];
    const record = applyClaim(records.get(id), {
      act: act as "claim",
      owner: owner ?? "",
      nowMs: Number(nowMs),
      leaseMs: Number(leaseMs),
      keepUntilSec: Number(keepUntilSec),
    });
    if (record) records.set(id, record);
    else records.delete(id);
    return;
  }
  const stored = recordOfLine(line);
  if (stored) records.set(RECORD.exec(line)?.[1] as Hex, stored);
}

export function recordOfLine(line: string): ClaimRecord | undefined {
  const stored = RECORD.exec(line);
  if (!stored) return undefined;
  const [, , state, owner, leaseUntilMs, releases, keepUntilSec] = stored;
  return {
    state: state as ClaimRecord["state"],
    owner: owner ?? "",
    leaseUntilMs: Number(leaseUntilMs),
    releases: Number(releases),
    keepUntilSec: Number(keepUntilSec),
  };
}
