/**
 * Collects renewals as they fall due, without any client: claims due rows, has them collected, schedules what failed and
 * tells what changed by the mere passing of time. Two runners do no harm: leases keep them apart, and where they meet all
 * the same the contract collects a period once.
 */
import { randomUUID } from "node:crypto";
import type { Logger } from "pino";
import { type Clock, type Hex, isTurnpikeError, keccakText } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { Indexer } from "../indexer";
import { subscriptionPayload } from "../indexer/payloads";
import type { Metrics } from "../metrics";
import { type Relayer, repeat } from "../relayer";
import type { Store } from "../store/open";
import { appendEvents } from "../store/tables/events";
import { policyAgainst } from "../subscriptions/policy";
import { findSubscription } from "../subscriptions/records";
import { type BatchItem, collect, type ItemOutcome } from "./batch";
import { type DueTerms, nextLookSec, type Stage, stageAt } from "./due";
import { type ClaimedRow, claimDue, extendLeases, letGo, postpone } from "./work-list";

export interface RenewalsDeps {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly relayer: Relayer;
  readonly indexer: Indexer;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
}

export interface Renewals {
  /** One look at the work list. @returns how many rows were worked on */
  tick(): Promise<number>;
  stop(): Promise<void>;
}

interface Failure {
  readonly reason: string;
  readonly attempt: number;
  /** unix seconds */
  readonly nextAttemptAt: number;
}

/** To the contract the record is none to be renewed: the indexer is about to take the row away. */
const GONE = new Set(["SubscriptionNotActive", "Ending"]);
const GONE_SEC = 10;
const LEASE_SEC = 120;
/** Rows that are not served here are looked at again after so long, in case the settings change. */
const UNSERVED_SEC = 7 * 86_400;
const APPLY_WAIT_MS = 5_000;

export function createRenewals(deps: RenewalsDeps): Renewals {
  const { config, store, relayer, indexer, clock, log, metrics } = deps;
  const { chainId, turnpike } = config;
  const owner = randomUUID();
  let isRunning = true;

  async function keepWaiting(): Promise<boolean> {
    await extendLeases(store.db, { chainId, owner, untilSec: clock.nowSec() + LEASE_SEC });
    return isRunning;
  }

  async function tick(): Promise<number> {
    const nowSec = clock.nowSec();
    const limit = config.renewalBatch;
    const rows = await claimDue(store.db, { chainId, owner, nowSec, leaseSec: LEASE_SEC, limit });
    const due: ClaimedRow[] = [];
    for (const row of rows) {
      const stage = stageAt(termsOf(row), nowSec);
      if (policyAgainst(row, config)) await postpone(store.db, row, { dueAtSec: nowSec + UNSERVED_SEC, attempts: 0 });
      else if (stage === "lapsed") await lapse(row, nowSec);
      else due.push(row);
    }
    if (due.length > 0) await collectRows(due);
    return rows.length;
  }

  async function collectRows(rows: readonly ClaimedRow[]): Promise<void> {
    const outcomes = await collect(rows.map(itemOf), { relayer, turnpike, keepWaiting });
    const blocks = [...outcomes.values()].flatMap((o) => (o.kind === "renewed" ? [o.blockNumber] : []));
    // The indexer moves the rows of what was renewed; until then they stay leased.
    if (blocks.length > 0) await indexer.waitApplied(Math.max(...blocks), APPLY_WAIT_MS);
    for (const row of rows) {
      const outcome = outcomes.get(row.id_hash as Hex) ?? { kind: "unsettled" };
      metrics.renewals.inc({ outcome: outcome.kind === "failed" ? outcome.reason : outcome.kind });
      await settle(row, outcome);
    }
    const renewed = blocks.length;
    if (renewed > 0) log.info({ renewed, of: rows.length }, "renewals collected");
  }

  async function settle(row: ClaimedRow, outcome: ItemOutcome): Promise<void> {
    const nowSec = clock.nowSec();
    switch (outcome.kind) {
      case "renewed":
        return;
      case "early":
      case "unsettled":
        return postpone(store.db, row, { dueAtSec: nowSec + 1, attempts: row.attempts });
      case "failed":
        if (GONE.has(outcome.reason)) {
          return postpone(store.db, row, { dueAtSec: nowSec + GONE_SEC, attempts: row.attempts });
        }
        return fail(row, outcome.reason, nowSec);
    }
  }

  async function fail(row: ClaimedRow, reason: string, nowSec: number): Promise<void> {
    const terms = termsOf(row);
    const attempts = row.attempts + 1;
    const nextAttemptAt = nextLookSec(terms, attempts, nowSec);
    const stage = stageAt(terms, nowSec);
    log.info({ idHash: row.id_hash, reason, attempts, nextAttemptAt }, "a renewal failed");
    await tell(row, "subscription.renewal_failed", { reason, attempt: attempts, nextAttemptAt }, nowSec);
    if (stage !== "in_grace") await tellStage(row, stage, nowSec);
    await postpone(store.db, row, { dueAtSec: nextAttemptAt, attempts });
  }

  async function lapse(row: ClaimedRow, nowSec: number): Promise<void> {
    await tellStage(row, "lapsed", nowSec);
    await letGo(store.db, row);
  }

  async function tellStage(row: ClaimedRow, stage: Stage, nowSec: number): Promise<void> {
    if (stage === "past_due") await tell(row, "subscription.past_due", {}, nowSec);
    if (stage === "lapsed") await tell(row, "subscription.expired", {}, nowSec);
  }

  /** Events of the clock: no log of the chain stands behind them, so their id is made of what they say. */
  async function tell(
    row: ClaimedRow,
    type: string,
    more: Failure | Record<never, never>,
    nowSec: number,
  ): Promise<void> {
    const record = await findSubscription(store.db, chainId, row.id_hash as Hex);
    if (!record || record.row.paid_through !== row.paid_through) return;
    const id = keccakText(
      [chainId, row.id_hash, type, row.paid_through, ...("attempt" in more ? [more.attempt] : [])].join("/"),
    );
    const event = {
      id,
      chainId,
      type,
      objectId: row.id_hash,
      provider: row.provider,
      payer: row.subscriber,
      payload: { ...subscriptionPayload(record.row, record.plan, record.allowance, nowSec), ...more },
      blockTime: nowSec,
    };
    await store.transaction((tx) => appendEvents(tx, [event]));
    store.wake.notify("events");
  }

  const loop = repeat(
    async () => {
      try {
        // A full batch means that more is waiting.
        while (isRunning && (await tick()) >= config.renewalBatch);
      } catch (error) {
        const isOutage = isTurnpikeError(error) && error.code === "Unavailable";
        log[isOutage ? "warn" : "error"]({ error }, "renewals pause");
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
