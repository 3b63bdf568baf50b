/** Decides what becomes of a claimed row: whether to collect it, when to look again, and which events time causes. */
import type { Logger } from "pino";
import type { Hex } from "turnpike/protocol";
import type { FacilitatorConfig } from "../../config";
import { lengthOfPlan } from "../payloads";
import { policyAgainst } from "../policy";
import type { BatchItem, ItemOutcome } from "./batch";
import { type DueTerms, nextLookSec, stageAt } from "./due";
import type { TimeEvent } from "./time-events";
import type { ClaimedRow, Postponement } from "./work-list";

export interface Decision {
  readonly postpone?: Postponement;
  readonly remove?: true;
  readonly events: readonly TimeEvent[];
}

/** The contract does not consider the record renewable: the indexer is about to remove the row. */
const GONE = new Set(["SubscriptionNotActive", "Ending"]);

const GONE_SEC = 10;

/** How long until a row that is not served here is checked again, in case the settings change. */
const UNSERVED_SEC = 7 * 86_400;

/** Decides a row without the chain. @returns undefined when it has to be collected */
export function decideNow(row: ClaimedRow, config: FacilitatorConfig, nowSec: number): Decision | undefined {
  const stage = stageAt(termsOf(row), nowSec);
  if (policyAgainst(row, config)) return { postpone: { dueAtSec: nowSec + UNSERVED_SEC, attempts: 0 }, events: [] };
  if (stage === "early") return { postpone: { dueAtSec: row.paid_through, attempts: 0 }, events: [] };
  if (stage === "lapsed") return { remove: true, events: [unpaid(row, "subscription.expired")] };
  if (stage === "ended") return { remove: true, events: [] };
  return undefined;
}

export function decideByOutcome(row: ClaimedRow, outcome: ItemOutcome, nowSec: number, log: Logger): Decision {
  switch (outcome.kind) {
    case "renewed":
      return { events: [] };
    case "early":
    case "unsettled":
      return { postpone: { dueAtSec: nowSec + 1, attempts: row.attempts }, events: [] };
    case "failed":
      if (GONE.has(outcome.reason)) {
        return { postpone: { dueAtSec: nowSec + GONE_SEC, attempts: row.attempts }, events: [] };
      }
      return decideFailed(row, outcome.reason, nowSec, log);
  }
}

function decideFailed(row: ClaimedRow, reason: string, nowSec: number, log: Logger): Decision {
  const terms = termsOf(row);
  const attempts = row.attempts + 1;
  const nextAttemptAt = nextLookSec(terms, attempts, nowSec);
  const stage = stageAt(terms, nowSec);
  log.info({ idHash: row.id_hash, reason, attempts, nextAttemptAt }, "a renewal failed");
  const failed = eventOf(row, "subscription.renewal_failed", {
    mark: attempts,
    more: { reason, attempt: attempts, nextAttemptAt, charge: row.amount },
  });
  const events = [failed];
  if (stage === "past_due") events.push(unpaid(row, "subscription.past_due"));
  if (stage === "lapsed") events.push(unpaid(row, "subscription.expired"));
  return { postpone: { dueAtSec: nextAttemptAt, attempts }, events };
}

const termsOf = (row: ClaimedRow): DueTerms => ({
  paidThroughSec: row.paid_through,
  ...lengthOfPlan(row),
  anchorDay: row.anchor_day,
  graceSec: row.grace_sec,
  untilSec: row.until,
});

export const itemOf = (row: ClaimedRow): BatchItem => ({
  idHash: row.id_hash as Hex,
  paidThroughSec: row.paid_through,
  attempts: row.attempts,
});

/** An event of a period that is not paid, with what its renewal charges: a scheduled change has another price. */
const unpaid = (row: ClaimedRow, type: string): TimeEvent => eventOf(row, type, { more: { charge: row.amount } });

const eventOf = (row: ClaimedRow, type: string, what: Pick<TimeEvent, "mark" | "more"> = {}): TimeEvent => ({
  idHash: row.id_hash,
  paidThroughSec: row.paid_through,
  type,
  ...what,
});
