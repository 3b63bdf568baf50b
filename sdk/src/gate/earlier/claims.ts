/** Reads the claims of the version before the log of cells: `claims-<generation>.log`, of which the newest counts. */
import type { Hex } from "../../protocol";
import { applyClaim, type ClaimAct, type ClaimRecord } from "../purchases/record";
import { recordOfText } from "../purchases/text";

/** What follows it in a file is in the next one. */
const ROTATED = "R;";

const ACT =
  /^A (0x[0-9a-f]{64}) (claim|renew|use|refund|release|withdraw) ([A-Za-z0-9_-]{0,22}) ([0-9]{1,16}) ([0-9]{1,16}) ([0-9]{1,16});$/;

const KEY = /^S (0x[0-9a-f]{64}) /;

/** Replays the lines of a file. A line of neither form was torn, and its writer did not count it either. */
export function earlierClaims(text: string): ReadonlyMap<Hex, ClaimRecord> {
  const records = new Map<Hex, ClaimRecord>();
  for (const line of text.split("\n")) {
    if (line === ROTATED) break;
    const [, id, act, owner = "", nowMs, leaseMs, keepUntilSec] = ACT.exec(line) ?? [];
    const key = (id ?? KEY.exec(line)?.[1]) as Hex | undefined;
    if (key === undefined) continue;
    const numbers = { nowMs: Number(nowMs), leaseMs: Number(leaseMs), keepUntilSec: Number(keepUntilSec) };
    const record =
      act === undefined
        ? recordOfText(line)
        : applyClaim(records.get(key), { act: act as "claim", owner, ...numbers } satisfies ClaimAct);
    if (record) records.set(key, record);
    else if (act !== undefined) records.delete(key);
  }
  return records;
}
