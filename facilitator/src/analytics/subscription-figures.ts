import { sql } from "kysely";
import type { AllowanceListWire, LatencyWire, RecurringWire, RenewalFiguresWire } from "turnpike/facilitator";
import type { Address, Hex } from "turnpike/protocol";
import type { Db } from "../db/open";
import { databaseNowMs } from "../db/sql";
import { DAY_SEC } from "../lib/durations";
import { recordsOf, subscriptionToWire } from "../subscriptions/records";
import { endingsIn } from "./endings";
import { listAllowances } from "./lists";
import { sumsByKind, totalsIn } from "./queries";
import {
  type AnalyticsOptions,
  createRanges,
  type FiguresQuery,
  positionOf,
  type Range,
  type Scope,
  type Whose,
} from "./ranges";
import { type Charged, lookBackSec, MOST_LOOK_BACK_SEC, type PlanChange, recurringOn } from "./recurring";
import { bucketOf, causedBy, PERIOD_SCHEMES } from "./rollups";

export interface SubscriptionFigures {
  renewals(whose: Whose, query: FiguresQuery): Promise<RenewalFiguresWire>;
  recurring(whose: Whose, query: FiguresQuery): Promise<RecurringWire>;
  latency(provider: Address, query: FiguresQuery): Promise<LatencyWire>;
  allowances(
    provider: Address,
    query: {
      readonly cursor?: string | undefined;
      readonly limit: number;
      readonly planId?: Hex | undefined;
      readonly subscriber?: Address | undefined;
    },
  ): Promise<AllowanceListWire>;
}

const RENEWALS = {
  renewed: "subscription.renewed",
  failedAttempts: "subscription.renewal_failed",
  pastDue: "subscription.past_due",
  expired: "subscription.expired",
} as const;

const CHANGES = {
  created: "subscription.created",
  cancelled: "subscription.cancelled",
  expired: "subscription.expired",
} as const;

/** Number of newest payments from which percentiles are computed. */
const LATENCY_SAMPLE = 1_000;

const LATENCY_STEPS_MS = [500, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000, 60_000, 300_000];

export function createSubscriptionFigures({ db, config, clock }: AnalyticsOptions): SubscriptionFigures {
  const { chainId } = config;
  const { scopeOf, rangeOf } = createRanges({ config, clock });
  return {
    async renewals(whose, query) {
      const { scope } = scopeOf(whose, query.token);
      const range = rangeOf(query, DAY_SEC);
      const [days, causes] = await Promise.all([
        countsByDay(db, scope, range, RENEWALS),
        causesOf(db, scope, range, RENEWALS.failedAttempts),
      ]);
      const total = { renewed: 0, failedAttempts: 0, pastDue: 0, expired: 0 };
      for (const day of days.values()) for (const name of namesOf(total)) total[name] += day[name];
      const points = [...days].map(([at, counts]) => ({ at, ...counts }));
      return { from: range.fromSec, to: range.toSec, ...total, causes, points };
    },

    async recurring(whose, query) {
      const { scope, unit } = scopeOf(whose, query.token);
      const range = rangeOf(query, DAY_SEC);
      const [charged, planChanges, changes, { lost }] = await Promise.all([
        chargedIn(db, scope, range),
        planChangesIn(db, scope, range),
        countsByDay(db, scope, range, CHANGES),
        endingsIn(db, scope, range),
      ]);
      const points = recurringOn(charged, range.fromSec, range.toSec, planChanges).map(({ atSec, amount, count }) => ({
        at: atSec,
        recurring: amount.toString(),
        subscriptions: count,
        ...(changes.get(atSec) ?? { created: 0, cancelled: 0, expired: 0 }),
      }));
      const ran = recurringOn(charged, range.fromSec - DAY_SEC, range.fromSec, planChanges)[0]?.count ?? 0;
      // A lost subscription may have been past due at the start: then no period of it was running.
      const before = Math.max(ran, lost);
      return {
        ...unit,
        from: range.fromSec,
        to: range.toSec,
        points,
        churn: { atStart: before, lost, ...(before > 0 && { rate: Number((lost / before).toFixed(6)) }) },
      };
    },

    async latency(provider, query) {
      const range = rangeOf(query, DAY_SEC);
      const tookMs = await settledWithin(db, { chainId, provider }, range, clock.nowSec());
      const at = (share: number): number | undefined => tookMs[Math.ceil(tookMs.length * share) - 1];
      const marks = { p50Ms: at(0.5), p90Ms: at(0.9), p95Ms: at(0.95), p99Ms: at(0.99), maxMs: at(1) };
      const bounds = [...LATENCY_STEPS_MS, Number.POSITIVE_INFINITY];
      return {
        from: range.fromSec,
        to: range.toSec,
        sampled: tookMs.length,
        ...(tookMs.length > 0 && marks),
        histogram: bounds.map((upToMs, index) => ({
          ...(Number.isFinite(upToMs) && { upToMs }),
          count: tookMs.filter((ms) => ms <= upToMs && ms > (bounds[index - 1] ?? -1)).length,
        })),
      };
    },

    async allowances(provider, { cursor, limit, ...filter }) {
      const rows = await listAllowances(db, { chainId, provider, ...filter }, { after: positionOf(cursor), limit });
      const nowSec = clock.nowSec();
      const records = await recordsOf(db, chainId, rows);
      const last = rows.length === limit ? rows.at(-1) : undefined;
      return {
        allowances: records.map((record) => {
          const { allowance, status } = subscriptionToWire(record, config, nowSec);
          const [cap, spent] = [BigInt(allowance.cap), BigInt(allowance.spent)];
          return {
            idHash: record.row.id_hash as Hex,
            subscriber: record.row.subscriber as Address,
            planId: record.row.plan_id as Hex,
            token: record.plan.token as Address,
            status,
            cap: allowance.cap,
            spent: allowance.spent,
            remaining: (spent < cap ? cap - spent : 0n).toString(),
            usedPercent: cap === 0n ? 100 : Number((spent * 100n) / cap),
            debits: allowance.debits,
            cycleEnds: record.row.paid_through,
          };
        }),
        ...(last && { next: `${last.created_at}.${last.id_hash}` }),
      };
    },
  };
}

const namesOf = <T extends object>(object: T) => Object.keys(object) as (keyof T)[];

/** In day order; days without data are left out. */
async function countsByDay<N extends string>(
  db: Db,
  scope: Scope,
  range: Range,
  types: Readonly<Record<N, string>>,
): Promise<Map<number, Record<N, number>>> {
  const rows = await totalsIn(db, { ...scope, token: "" }, range)
    .select(["bucket", "kind", "count"])
    .where("kind", "in", Object.values<string>(types))
    .orderBy("bucket")
    .execute();
  const days = new Map<number, Record<N, number>>();
  const names = Object.entries<string>(types) as [N, string][];
  for (const { bucket, kind, count } of rows) {
    const day = days.get(bucket) ?? (Object.fromEntries(names.map(([name]) => [name, 0])) as Record<N, number>);
    for (const [name, named] of names) if (named === kind) day[name] = count;
    days.set(bucket, day);
  }
  return days;
}

/** The most frequent one first. */
async function causesOf(db: Db, scope: Scope, range: Range, type: string) {
  const before = causedBy(type);
  return [...(await sumsByKind(db, { ...scope, token: "" }, range))]
    .filter(([kind, { count }]) => kind.startsWith(before) && count > 0)
    .map(([kind, { count }]) => ({ cause: kind.slice(before.length), count }))
    .sort((a, b) => b.count - a.count || (a.cause < b.cause ? -1 : 1));
}

async function chargedIn(db: Db, scope: Scope, { fromSec, toSec }: Range): Promise<Charged[]> {
  const rows = await totalsIn(db, scope, { fromSec: fromSec - MOST_LOOK_BACK_SEC, toSec })
    .select(({ fn }) => [
      "interval_sec",
      "bucket",
      fn.sum<string>("count").as("count"),
      fn.sum<string>("amount").as("amount"),
    ])
    .where("kind", "in", PERIOD_SCHEMES)
    .where("interval_sec", ">", 0)
    .where(sql<boolean>`bucket >= ${fromSec} - ${lookBackSec(sql.ref("interval_sec"))}`)
    .groupBy(["interval_sec", "bucket"])
    .execute();
  return rows.map(({ interval_sec: intervalSec, bucket: atSec, count, amount }) => ({
    intervalSec,
    atSec,
    count: Number(count),
    amount: BigInt(amount),
  }));
}

/** The changes of the same days, each with the period that it ended. */
async function planChangesIn(db: Db, { chainId, provider, token }: Scope, range: Range): Promise<PlanChange[]> {
  const { rows } = await sql<ChangeRow>`
    select e.block_time as at, coalesce(e.payload->>'charged', '0') as charged, p.amount as price, p.interval_sec,
      b.block_time as before_at,
      case when b.type = 'subscription.created' then (b.payload->>'charged')::numeric else o.amount end as before_amount, o.interval_sec as before_interval_sec
    from events e
    join plans p on p.chain_id = e.chain_id and p.plan_id = e.payload->>'planId' and p.token = ${token}
    join lateral (
      select block_time, type, payload from events where chain_id = e.chain_id and object_id = e.object_id and seq < e.seq
        and not reverted and (type = 'subscription.plan_changed'
          or type in ('subscription.created', 'subscription.renewed', 'subscription.resumed') and payload->>'charged' <> '0')
      order by seq desc limit 1) b on true
    join plans o on o.chain_id = e.chain_id and o.plan_id = b.payload->>'planId'
    where e.chain_id = ${chainId} and ${provider === undefined ? sql`e.provider is not null` : sql`e.provider = ${provider}`}
      and not e.reverted and e.type = 'subscription.plan_changed' and e.block_time < ${range.toSec}
      and e.block_time >= ${range.fromSec} - ${lookBackSec(sql`greatest(p.interval_sec, o.interval_sec)`)}`.execute(db);
  return rows.map((row) => ({
    atSec: bucketOf(row.at, DAY_SEC),
    charged: BigInt(row.charged),
    price: BigInt(row.price),
    intervalSec: row.interval_sec,
    before: {
      atSec: bucketOf(row.before_at, DAY_SEC),
      intervalSec: row.before_interval_sec,
      amount: BigInt(row.before_amount),
    },
  }));
}

interface ChangeRow {
  readonly at: number;
  readonly charged: string;
  readonly price: string;
  readonly interval_sec: number;
  readonly before_at: number;
  readonly before_amount: string;
  readonly before_interval_sec: number;
}

/** Maximum difference between a block's time and the acceptance of a payment that it settles. */
const SLACK_SEC = DAY_SEC;

/**
 * Returns milliseconds from acceptance to settlement of the newest payments settled in the range, shortest first.
 * Acceptance uses the database's clock, which orders the index. A chain whose clock was moved ahead, as a sandbox's,
 * settles at its own time. The index is therefore read as far as the two clocks differ.
 */
async function settledWithin(
  db: Db,
  { chainId, provider }: { readonly chainId: number; readonly provider: Address },
  { fromSec, toSec }: Range,
  nowSec: number,
): Promise<number[]> {
  const aheadMs = sql`greatest(0, ${nowSec * 1_000}::bigint - ${databaseNowMs})`;
  const { rows } = await sql<{ ms: number }>`
    with clocks as materialized (select ${aheadMs} as ahead_ms)
    select ms from (select settled_at_ms - accepted_at_ms as ms from payments p
      where chain_id = ${chainId} and pay_to = ${provider} and p.door <> 'refund' and state in ('settled', 'failed')
        and accepted_at_ms >= ${(fromSec - SLACK_SEC) * 1_000}::bigint - (select ahead_ms from clocks)
        and accepted_at_ms < ${(toSec + SLACK_SEC) * 1_000}::bigint
        and state = 'settled' and block_time >= ${fromSec} and block_time < ${toSec} and settled_at_ms is not null
      order by accepted_at_ms desc, payment_id desc limit ${LATENCY_SAMPLE}) newest order by ms`.execute(db);
  return rows.map(({ ms }) => Math.max(0, ms));
}
