/**
 * Collects renewals as they fall due, without any client. It claims due rows, collects them, schedules retries, and
 * emits the events that passing time causes. Several runners are safe: leases separate them, and the contract collects
 * a period once.
 */
import { randomUUID } from "node:crypto";
import type { Hex } from "turnpike/protocol";
import { LEASE_MS, renewEvery } from "../../db/leases";
import type { Indexer } from "../../indexer";
import { repeat, type Worker } from "../../lib/loop";
import type { Progress, ProgressBar } from "../../lib/progress";
import type { Relayer } from "../../relayer";
import { createFaultLog, type FaultLog } from "../../telemetry/fault-log";
import type { Metrics } from "../../telemetry/metrics";
import { createRiskWatch, type RiskContext, type RiskWatch } from "./at-risk";
import { collect, type ItemOutcome } from "./batch";
import { type Decision, decideByOutcome, decideNow, itemOf } from "./decisions";
import { createEndWatch, type EndWatch } from "./ends";
import { emitTimeEvents } from "./time-events";
import { type ClaimedRow, countDue, createWorkList, LOOK_FROM_START_MS, type WorkList } from "./work-list";

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

/** In chain time; extended while rows are in work. A runner that takes over too early charges nobody twice. */
export const LEASE_SEC = LEASE_MS / 1_000;

const APPLY_WAIT_MS = 5_000;

/** Batches pending at the same time: enough to fill blocks, few enough to leave slots for payments. */
const IN_FLIGHT = 4;

/** When the last look found nothing, and until when nothing can have become due. */
interface Idle {
  readonly applied: number;
  readonly untilSec: number;
  readonly untilMs: number;
}

export function createRenewals(context: RenewalsContext, options: RenewalsOptions = {}): Renewals {
  return new RenewalRunner(context, options);
}

class RenewalRunner implements Renewals {
  readonly #context: RenewalsContext;
  readonly #monotonicMs: () => number;
  readonly #work: WorkList;
  readonly #risks: RiskWatch;
  readonly #ends: EndWatch;
  readonly #faults: FaultLog;
  readonly #loop: Worker;
  readonly #renewing: Worker;
  #inWork = 0;
  #isRunning = true;
  #idle: Idle | undefined;

  constructor(context: RenewalsContext, options: RenewalsOptions) {
    const { config, store, log } = context;
    const { chainId, renewalBatch: limit } = config;
    const monotonicMs = options.monotonicMs ?? (() => performance.now());
    const owner = randomUUID();
    this.#context = context;
    this.#monotonicMs = monotonicMs;
    this.#work = createWorkList({
      db: store.db,
      chainId,
      owner,
      limit,
      leaseSec: LEASE_SEC,
      monotonicMs,
      leases: store.leases,
    });
    this.#risks = createRiskWatch(context);
    this.#ends = createEndWatch({ store, feed: context.feed, chainId });
    this.#faults = createFaultLog({ log, monotonicMs });
    this.#loop = repeat(
      () => this.#round(),
      () => Promise.race([store.notifier.wait("block", config.pollMs), this.#released(config.pollMs)]),
    );
    this.#renewing = renewEvery(LEASE_MS, async () => {
      if (this.#inWork > 0) await this.#work.extend(context.clock.nowSec());
    });
  }

  async stop(): Promise<void> {
    this.#isRunning = false;
    await this.#loop.stop();
    await this.#renewing.stop();
    await this.#risks.stop();
    const { store, clock, indexer } = this.#context;
    // Before the first head there is no chain time, and nothing was claimed.
    if (!indexer.head()) return;
    if ((await this.#work.release(clock.nowSec())) > 0) store.notifier.notify("renewals");
  }

  /** Waits until another process releases rows. They come with no block. */
  async #released(timeoutMs: number): Promise<void> {
    if (await this.#context.store.notifier.wait("renewals", timeoutMs)) this.#idle = undefined;
  }

  async tick(): Promise<number> {
    const { config, store, clock, progress } = this.#context;
    const limit = config.renewalBatch;
    const running = new Set<Promise<void>>();
    const failures: unknown[] = [];
    let bar: ProgressBar | undefined;
    let worked = 0;
    while (this.#isRunning && failures.length === 0) {
      const rows = await this.#work.claim(clock.nowSec());
      if (rows.length === 0) break;
      worked += rows.length;
      if (rows.length === limit) {
        bar ??= progress.begin("renewals", 0);
        bar.setTotal(worked + (await countDue(store.db, config.chainId, clock.nowSec())));
      }
      this.#inWork++;
      const batch: Promise<void> = this.#workOn(rows)
        .then(() => bar?.advance(rows.length))
        .catch((error: unknown) => void failures.push(error))
        .finally(() => {
          this.#inWork--;
          running.delete(batch);
        });
      running.add(batch);
      if (running.size >= IN_FLIGHT) await Promise.race(running);
    }
    await Promise.all(running);
    bar?.end();
    if (failures.length > 0) throw failures[0];
    return worked;
  }

  async #round(): Promise<void> {
    try {
      await this.#tickUnlessIdle();
      this.#faults.recovered("round");
    } catch (error) {
      this.#faults.met("round", error, "renewals pause");
    }
  }

  /** Processes rows when there can be any: only a new block or passing time makes rows due. */
  async #tickUnlessIdle(): Promise<void> {
    const { indexer, clock } = this.#context;
    const applied = indexer.applied();
    const nowSec = clock.nowSec();
    const idle = this.#idle;
    if (idle?.applied === applied && nowSec < idle.untilSec && this.#monotonicMs() < idle.untilMs) return;
    this.#idle = undefined;
    const worked = await this.tick();
    await this.#ends.check();
    await this.#risks.check();
    if (worked > 0) return;
    // Rows that a killed process abandoned come with no block.
    const untilSec = await this.#work.nextDueSec();
    this.#idle = { applied, untilSec, untilMs: this.#monotonicMs() + LOOK_FROM_START_MS };
  }

  async #workOn(rows: readonly ClaimedRow[]): Promise<void> {
    const { config, clock } = this.#context;
    const nowSec = clock.nowSec();
    const decided: [ClaimedRow, Decision][] = [];
    const due: ClaimedRow[] = [];
    for (const row of rows) {
      const decision = decideNow(row, config, nowSec);
      if (decision) decided.push([row, decision]);
      else due.push(row);
    }
    await this.#settle(decided, nowSec);
    if (due.length > 0) await this.#collectRows(due);
  }

  async #collectRows(rows: readonly ClaimedRow[]): Promise<void> {
    const { config, relayer, indexer, clock, log, metrics } = this.#context;
    const keepWaiting = async () => this.#isRunning;
    const outcomes = await collect(rows.map(itemOf), { relayer, turnpike: config.turnpike, keepWaiting });
    const blocks = [...outcomes.values()].flatMap((o) => (o.kind === "renewed" ? [o.blockNumber] : []));
    // The indexer updates the rows of renewed subscriptions; until then they stay leased.
    if (blocks.length > 0) await indexer.waitApplied(Math.max(...blocks), APPLY_WAIT_MS);
    const nowSec = clock.nowSec();
    const decided = rows.map((row): [ClaimedRow, Decision] => {
      const outcome: ItemOutcome = outcomes.get(row.id_hash as Hex) ?? { kind: "unsettled" };
      metrics.renewals.inc({ outcome: outcome.kind === "failed" ? outcome.reason : outcome.kind });
      return [row, decideByOutcome(row, outcome, nowSec, log)];
    });
    await this.#settle(decided, nowSec);
    if (blocks.length > 0) log.info({ renewed: blocks.length, of: rows.length }, "renewals collected");
  }

  /** Writes the events and the schedule in one transaction. */
  async #settle(decided: readonly (readonly [ClaimedRow, Decision])[], nowSec: number): Promise<void> {
    const { config, store, feed } = this.#context;
    const events = decided.flatMap(([, decision]) => decision.events);
    const postponed = decided.flatMap(([row, { postpone }]) => (postpone ? [{ ...row, ...postpone }] : []));
    const gone = decided.flatMap(([row, { remove }]) => (remove ? [row] : []));
    if (events.length + postponed.length + gone.length === 0) return;
    await store.transaction(async (tx) => {
      await emitTimeEvents(tx, { chainId: config.chainId, feed }, events, nowSec);
      await this.#work.postpone(postponed, tx);
      await this.#work.remove(gone, tx);
    });
    if (events.length > 0) store.notifier.notify("events");
  }
}
