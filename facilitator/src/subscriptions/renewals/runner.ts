/**
 * Collects renewals as they fall due, without any client. It claims due rows, collects them, schedules retries, and
 * emits the events that passing time causes. Several runners are safe: leases separate them, and the contract collects
 * a period once.
 */
import { randomUUID } from "node:crypto";
import type { Hex } from "turnpike/protocol";
import type { Indexer } from "../../indexer";
import { repeat, type Worker } from "../../lib/loop";
import type { Progress, ProgressBar } from "../../lib/progress";
import type { Relayer } from "../../relayer";
import { createFaultLog } from "../../telemetry/fault-log";
import type { Metrics } from "../../telemetry/metrics";
import { policyAgainst } from "../policy";
import { createRiskWatch, type RiskContext } from "./at-risk";
import { type BatchItem, collect, type ItemOutcome } from "./batch";
import { type DueTerms, nextLookSec, stageAt } from "./due";
import { emitTimeEvents, type TimeEvent } from "./time-events";
import { type ClaimedRow, countDue, createWorkList, LOOK_FROM_START_MS, type Postponement } from "./work-list";

export interface Renewals extends Worker {
  /** Processes everything that is due now. @returns the number of rows */
  tick(): Promise<number>;
}

export interface RenewalsContext extends RiskContext {
  readonly relayer: Relayer;
  readonly indexer: Indexer;
  readonly metrics: Metrics;
  readonly progress: Progress;
}

export interface RenewalsOptions {
  readonly monotonicMs?: () => number;
}

/** The contract does not consider the record renewable: the indexer is about to remove the row. */
const GONE = new Set(["SubscriptionNotActive", "Ending"]);

const GONE_SEC = 10;

/** In chain time; extended while a transaction is pending. A runner that takes over too early charges nobody twice. */
export const LEASE_SEC = 30;

/** How long until a row that is not served here is checked again, in case the settings change. */
const UNSERVED_SEC = 7 * 86_400;

const APPLY_WAIT_MS = 5_000;

/** Batches pending at the same time: enough to fill blocks, few enough to leave slots for payments. */
const IN_FLIGHT = 4;

/** The action on a row once its outcome is known. */
interface Decision {
  readonly postpone?: Postponement;
  readonly letGo?: true;
  readonly tell: readonly TimeEvent[];
}

export function createRenewals(context: RenewalsContext, options: RenewalsOptions = {}): Renewals {
  const { config, store, feed, relayer, indexer, clock, log, metrics, progress } = context;
  const { chainId, turnpike } = config;
  const monotonicMs = options.monotonicMs ?? (() => performance.now());
  const owner = randomUUID();
  const limit = config.renewalBatch;
  const work = createWorkList({ db: store.db, chainId, owner, limit, leaseSec: LEASE_SEC, monotonicMs });
  const risks = createRiskWatch(context);
  const faults = createFaultLog({ log, monotonicMs });
  let isRunning = true;

  async function keepWaiting(): Promise<boolean> {
    await work.extend(clock.nowSec());
    return isRunning;
  }

  async function tick(): Promise<number> {
    const running = new Set<Promise<void>>();
    const failures: unknown[] = [];
    let bar: ProgressBar | undefined;
    let worked = 0;
    while (isRunning && failures.length === 0) {
      const rows = await work.claim(clock.nowSec());
      if (rows.length === 0) break;
      worked += rows.length;
      if (rows.length === limit) {
        bar ??= progress.begin("renewals", 0);
        bar.setTotal(worked + (await countDue(store.db, chainId, clock.nowSec())));
      }
      const batch: Promise<void> = workOn(rows)
        .then(() => bar?.advance(rows.length))
        .catch((error: unknown) => void failures.push(error))
        .finally(() => running.delete(batch));
      running.add(batch);
      if (running.size >= IN_FLIGHT) await Promise.race(running);
    }
    await Promise.all(running);
    bar?.end();
    if (failures.length > 0) throw failures[0];
    return worked;
  }

  async function workOn(rows: readonly ClaimedRow[]): Promise<void> {
    const nowSec = clock.nowSec();
    const decided: [ClaimedRow, Decision][] = [];
    const due: ClaimedRow[] = [];
    for (const row of rows) {
      const stage = stageAt(termsOf(row), nowSec);
      if (policyAgainst(row, config)) {
        decided.push([row, { postpone: { dueAtSec: nowSec + UNSERVED_SEC, attempts: 0 }, tell: [] }]);
      } else if (stage === "early") {
        decided.push([row, { postpone: { dueAtSec: row.paid_through, attempts: 0 }, tell: [] }]);
      } else if (stage === "lapsed") {
        decided.push([row, { letGo: true, tell: [eventOf(row, "subscription.expired")] }]);
      } else due.push(row);
    }
    await settle(decided, nowSec);
    if (due.length > 0) await collectRows(due);
  }

  async function collectRows(rows: readonly ClaimedRow[]): Promise<void> {
    const outcomes = await collect(rows.map(itemOf), { relayer, turnpike, keepWaiting });
    const blocks = [...outcomes.values()].flatMap((o) => (o.kind === "renewed" ? [o.blockNumber] : []));
    // The indexer updates the rows of renewed subscriptions; until then they stay leased.
    if (blocks.length > 0) await indexer.waitApplied(Math.max(...blocks), APPLY_WAIT_MS);
    const nowSec = clock.nowSec();
    const decided = rows.map((row): [ClaimedRow, Decision] => {
      const outcome: ItemOutcome = outcomes.get(row.id_hash as Hex) ?? { kind: "unsettled" };
      metrics.renewals.inc({ outcome: outcome.kind === "failed" ? outcome.reason : outcome.kind });
      return [row, decisionOf(row, outcome, nowSec)];
    });
    await settle(decided, nowSec);
    if (blocks.length > 0) log.info({ renewed: blocks.length, of: rows.length }, "renewals collected");
  }

  function decisionOf(row: ClaimedRow, outcome: ItemOutcome, nowSec: number): Decision {
    switch (outcome.kind) {
      case "renewed":
        return { tell: [] };
      case "early":
      case "unsettled":
        return { postpone: { dueAtSec: nowSec + 1, attempts: row.attempts }, tell: [] };
      case "failed":
        if (GONE.has(outcome.reason)) {
          return { postpone: { dueAtSec: nowSec + GONE_SEC, attempts: row.attempts }, tell: [] };
        }
        return failureOf(row, outcome.reason, nowSec);
    }
  }

  function failureOf(row: ClaimedRow, reason: string, nowSec: number): Decision {
    const terms = termsOf(row);
    const attempts = row.attempts + 1;
    const nextAttemptAt = nextLookSec(terms, attempts, nowSec);
    const stage = stageAt(terms, nowSec);
    log.info({ idHash: row.id_hash, reason, attempts, nextAttemptAt }, "a renewal failed");
    const failed = eventOf(row, "subscription.renewal_failed", {
      mark: attempts,
      more: { reason, attempt: attempts, nextAttemptAt },
    });
    const tell = [failed];
    if (stage === "past_due") tell.push(eventOf(row, "subscription.past_due"));
    if (stage === "lapsed") tell.push(eventOf(row, "subscription.expired"));
    return { postpone: { dueAtSec: nextAttemptAt, attempts }, tell };
  }

  /** Writes the events and the schedule in one transaction. */
  async function settle(decided: readonly (readonly [ClaimedRow, Decision])[], nowSec: number): Promise<void> {
    const events = decided.flatMap(([, decision]) => decision.tell);
    const postponed = decided.flatMap(([row, { postpone }]) => (postpone ? [{ ...row, ...postpone }] : []));
    const gone = decided.flatMap(([row, { letGo }]) => (letGo ? [row] : []));
    if (events.length + postponed.length + gone.length === 0) return;
    await store.transaction(async (tx) => {
      await emitTimeEvents(tx, { chainId, feed }, events, nowSec);
      await work.postpone(postponed, tx);
      await work.remove(gone, tx);
    });
    if (events.length > 0) store.wake.notify("events");
  }

  let idleAt: { readonly applied: number; readonly untilSec: number; readonly untilMs: number } | undefined;

  /** Finds whether there can be work: only a new block or passing time makes rows due. */
  async function look(): Promise<void> {
    const applied = indexer.applied();
    const nowSec = clock.nowSec();
    if (idleAt?.applied === applied && nowSec < idleAt.untilSec && monotonicMs() < idleAt.untilMs) return;
    idleAt = undefined;
    const worked = await tick();
    await risks.look();
    if (worked > 0) return;
    // Rows that another process abandoned come with no block.
    idleAt = { applied, untilSec: await work.nextDueSec(), untilMs: monotonicMs() + LOOK_FROM_START_MS };
  }

  const loop = repeat(
    async () => {
      try {
        await look();
        faults.recovered("round");
      } catch (error) {
        faults.met("round", error, "renewals pause");
      }
    },
    () => store.wake.wait("block", config.pollMs),
  );

  return {
    tick,
    stop() {
      isRunning = false;
      return loop.stop();
    },
  };
}

const termsOf = (row: ClaimedRow): DueTerms => ({
  paidThroughSec: row.paid_through,
  intervalSec: row.interval_sec,
  graceSec: row.grace_sec,
});

const itemOf = (row: ClaimedRow): BatchItem => ({
  idHash: row.id_hash as Hex,
  paidThroughSec: row.paid_through,
  attempts: row.attempts,
});

const eventOf = (row: ClaimedRow, type: string, what: Pick<TimeEvent, "mark" | "more"> = {}): TimeEvent => ({
  idHash: row.id_hash,
  paidThroughSec: row.paid_through,
  type,
  ...what,
});
