/** Builds a provider's figures in wire terms. Reads the sums and its own rows; makes no chain request. */
import type {
  ChargeListWire,
  OverviewWire,
  PayerFiguresWire,
  PaymentListWire,
  PlanFiguresWire,
  Scheme,
  SubscriberListWire,
  VolumeWire,
} from "turnpike/facilitator";
import type { Address, Hex } from "turnpike/protocol";
import { findToken } from "../config";
import type { PaymentRow } from "../db/tables/payments";
import { DAY_SEC, HOUR_SEC } from "../lib/durations";
import { recordsOf, subscriptionToWire } from "../subscriptions/records";
import { createFailedRenewals, type FailedRenewalFigures } from "./failed-renewals";
import { createFunnelFigures, type FunnelFigures } from "./funnel-figures";
import { failedPaymentsIn, lifecycleIn } from "./lifecycle";
import { listCharges, listPayments, listSubscribers, type PaymentStatus } from "./lists";
import {
  byScheme,
  eventCounts,
  firstDay,
  type PayerFigures,
  type PlanFigures,
  payersOf,
  planFigures,
  type Sum,
  sumToWire,
  volumeOverTime,
} from "./queries";
import {
  type AnalyticsOptions,
  createRanges,
  type FiguresQuery,
  positionOf,
  sequenceOf,
  type Told,
  type Whose,
} from "./ranges";
import { createServiceFigures, type ServiceFigures, settlementCostIn } from "./service-figures";
import { standing } from "./standing";
import { createSubscriptionFigures, type SubscriptionFigures } from "./subscription-figures";

export interface ListQuery {
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/** A list that is too long for one response, and the token of its amounts. */
export interface Whole<T> {
  readonly told: Told;
  pageAfter(cursor: string | undefined, limit: number): Promise<{ rows: readonly T[]; next?: string | undefined }>;
}

export interface Analytics extends SubscriptionFigures, FailedRenewalFigures, FunnelFigures, ServiceFigures {
  /** @returns undefined for a token that is no longer settled */
  decimalsOf(token: string): number | undefined;
  overview(whose: Whose, query: FiguresQuery): Promise<OverviewWire>;
  volume(whose: Whose, query: FiguresQuery & { readonly grain: "hour" | "day" }): Promise<VolumeWire>;
  plans(provider: Address, query: FiguresQuery & { readonly limit: number }): Promise<PlanFiguresWire>;
  /** All plans in order of creation, one page at a time. */
  allPlans(provider: Address, query: FiguresQuery): Whole<PlanFiguresWire["plans"][number]>;
  payers(
    provider: Address,
    query: Pick<FiguresQuery, "token"> & { readonly limit: number; readonly payer?: Address | undefined },
  ): Promise<PayerFiguresWire>;
  /** All payers by address, one page at a time. */
  allPayers(provider: Address, token: Address | undefined): Whole<PayerFiguresWire["payers"][number]>;
  /** What a payer's subscriptions were charged. */
  charges(
    provider: Address,
    query: ListQuery & { readonly payer: Address; readonly token?: Address | undefined },
  ): Promise<ChargeListWire>;
  payments(
    provider: Address,
    query: ListQuery & { readonly status?: PaymentStatus | undefined; readonly payer?: Address | undefined },
  ): Promise<PaymentListWire>;
  subscribers(
    provider: Address,
    query: ListQuery & { readonly planId?: Hex | undefined; readonly subscriber?: Address | undefined },
  ): Promise<SubscriberListWire>;
}

export function createAnalytics({ db, config, clock }: AnalyticsOptions): Analytics {
  const { chainId } = config;
  const { scopeOf, rangeOf } = createRanges({ config, clock });

  return {
    ...createSubscriptionFigures({ db, config, clock }),
    ...createFailedRenewals({ db, config, clock }),
    ...createFunnelFigures({ db, config, clock }),
    ...createServiceFigures({ db, config, clock }),

    decimalsOf: (token) => findToken(config, token as Address)?.decimals,

    async overview(whose, query) {
      const { scope, told } = scopeOf(whose, query.token);
      const range = rangeOf(query, DAY_SEC);
      const before = { fromSec: 2 * range.fromSec - range.toSec, toSec: range.fromSec };
      const [points, pointsBefore, counts, changes, failed, sinceSec, now, settlementCost] = await Promise.all([
        volumeOverTime(db, scope, range, DAY_SEC),
        volumeOverTime(db, scope, before, DAY_SEC),
        eventCounts(db, scope, range),
        lifecycleIn(db, { scope, range, hasOtherTokens: config.tokens.length > 1 }),
        failedPaymentsIn(db, scope, range),
        firstDay(db, scope),
        standing(db, scope, clock.nowSec()),
        settlementCostIn(db, chainId, range, config.nativePrice),
      ]);
      const count = (type: string): number => counts.get(type) ?? 0;
      const schemes = byScheme(points);
      return {
        ...told,
        from: range.fromSec,
        to: range.toSec,
        ...(sinceSec !== undefined && { since: sinceSec }),
        volume: sumToWire(total(points)),
        volumeBefore: sumToWire(total(pointsBefore)),
        byScheme: schemesToWire(schemes),
        subscriptions: {
          active: now.active,
          recurring: now.recurring.toString(),
          created: changes.created,
          cancelled: changes.cancelled,
          expired: changes.expired,
          ended: changes.ended,
        },
        renewals: {
          renewed: schemes.get("renewal")?.count ?? 0,
          pastDue: count("subscription.past_due"),
          failedAttempts: count("subscription.renewal_failed"),
        },
        payments: {
          settled: schemes.get("one-time")?.count ?? 0,
          failed: failed.count,
          reversed: count("payment.reversed"),
        },
        ...(settlementCost && { settlementCost }),
      };
    },

    async volume(whose, query) {
      const { scope, told } = scopeOf(whose, query.token);
      const grain = query.grain === "hour" ? HOUR_SEC : DAY_SEC;
      const range = rangeOf(query, grain);
      const points = await volumeOverTime(db, scope, range, grain);
      return {
        ...told,
        grain: query.grain,
        from: range.fromSec,
        to: range.toSec,
        points: points.map(({ atSec, scheme, ...sum }) => ({ at: atSec, scheme, ...sumToWire(sum) })),
      };
    },

    async plans(provider, query) {
      const { scope, told } = scopeOf(provider, query.token);
      const range = rangeOf(query, DAY_SEC);
      const page = { nowSec: clock.nowSec(), limit: query.limit };
      const plans = await planFigures(db, { ...scope, provider }, range, page);
      return {
        ...told,
        from: range.fromSec,
        to: range.toSec,
        plans: plans.map(planToWire),
      };
    },

    allPlans(provider, query) {
      const { scope, told } = scopeOf(provider, query.token);
      const range = rangeOf(query, DAY_SEC);
      return {
        told,
        async pageAfter(cursor, limit) {
          const page = { nowSec: clock.nowSec(), limit, afterIndex: Number(cursor ?? -1) };
          const plans = await planFigures(db, { ...scope, provider }, range, page);
          return { rows: plans.map(planToWire), ...(plans.length === limit && { next: String(plans.at(-1)?.index) }) };
        },
      };
    },

    async payers(provider, { token, limit, payer }) {
      const { scope, told } = scopeOf(provider, token);
      const payers = await payersOf(db, scope, { limit, payer });
      return { ...told, payers: payers.map(payerToWire) };
    },

    allPayers(provider, token) {
      const { scope, told } = scopeOf(provider, token);
      return {
        told,
        async pageAfter(after = "", limit) {
          const rows = await payersOf(db, scope, { limit, after });
          return { rows: rows.map(payerToWire), ...(rows.length === limit && { next: rows.at(-1)?.payer }) };
        },
      };
    },

    async charges(provider, { payer, token, cursor, limit }) {
      const { told } = scopeOf(provider, token);
      const filter = { chainId, provider, payer, token: told.token };
      const rows = await listCharges(db, filter, { afterSeq: sequenceOf(cursor), limit });
      return {
        ...{ ...told, payer },
        charges: rows.map((row) => ({
          ...{ at: row.block_time, scheme: row.scheme, token: told.token, amount: row.amount },
          subject: row.object_id,
          ...(row.transaction && { transaction: row.transaction }),
        })),
        ...(rows.length === limit && { next: String(rows.at(-1)?.seq) }),
      };
    },

    async payments(provider, { cursor, limit, status, payer }) {
      const filter = { chainId, payTo: provider, payer, status };
      const rows = await listPayments(db, filter, { after: positionOf(cursor), limit });
      const last = rows.length === limit ? rows.at(-1) : undefined;
      return {
        payments: rows.map(paymentToWire),
        ...(last && { next: `${last.accepted_at_ms}.${last.payment_id}` }),
      };
    },

    async subscribers(provider, { cursor, limit, planId, subscriber }) {
      const rows = await listSubscribers(
        db,
        { chainId, provider, planId, subscriber },
        { after: positionOf(cursor), limit },
      );
      const nowSec = clock.nowSec();
      const records = await recordsOf(db, chainId, rows);
      const last = rows.length === limit ? rows.at(-1) : undefined;
      return {
        subscriptions: records.map((record) => ({
          ...subscriptionToWire(record, config, nowSec),
          createdAt: record.row.created_at,
          token: record.plan.token,
        })),
        ...(last && { next: `${last.created_at}.${last.id_hash}` }),
      };
    },
  };
}

function planToWire(plan: PlanFigures): PlanFiguresWire["plans"][number] {
  return {
    planId: plan.planId,
    metadata: plan.metadata,
    price: plan.price.toString(),
    interval: plan.intervalSec,
    deprecated: plan.deprecated,
    active: plan.active,
    recurring: plan.recurring.toString(),
    ...sumToWire(plan),
    byScheme: schemesToWire(plan.byScheme),
  };
}

const payerToWire = ({ payer, ...sum }: PayerFigures) => ({ payer, ...sumToWire(sum) });

function schemesToWire(sums: ReadonlyMap<Scheme, Sum>): Partial<Record<Scheme, { count: number; amount: string }>> {
  return Object.fromEntries([...sums].map(([scheme, sum]) => [scheme, sumToWire(sum)]));
}

function total(points: readonly Sum[]): Sum {
  return points.reduce((sum, point) => ({ count: sum.count + point.count, amount: sum.amount + point.amount }), {
    count: 0,
    amount: 0n,
  });
}

function paymentToWire(row: PaymentRow): PaymentListWire["payments"][number] {
  return {
    id: row.payment_id,
    token: row.token,
    payer: row.payer,
    amount: row.amount,
    resource: row.resource_shown,
    status: statusOf(row),
    acceptedAt: Math.floor(row.accepted_at_ms / 1_000),
    ...(row.state === "settled" && row.block_time !== null && { settledAt: row.block_time }),
    ...(row.tx_hash && { transaction: row.tx_hash }),
    ...(row.fail_code && { reason: row.fail_code }),
  };
}

function statusOf({ state, is_reversed: isReversed }: PaymentRow): PaymentListWire["payments"][number]["status"] {
  if (state === "settled" || state === "failed") return state;
  return isReversed ? "reversed" : "pending";
}
