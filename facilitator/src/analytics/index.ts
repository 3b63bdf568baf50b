/** A provider's figures in the words of the wire. Reads the sums and its own rows; asks no chain. */
import type {
  OverviewWire,
  PayerFiguresWire,
  PaymentListWire,
  PlanFiguresWire,
  Scheme,
  SubscriberListWire,
  VolumeWire,
} from "turnpike/facilitator";
import type { Address, Clock, Hex } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { Db } from "../store/open";
import { DAY_SEC, HOUR_SEC } from "../store/rollups";
import type { PaymentRow } from "../store/tables/payments";
import { recordsOf, subscriptionToWire } from "../subscriptions/records";
import { createFailedRenewals, type FailedRenewalFigures } from "./failed-renewals";
import { createFunnelFigures, type FunnelFigures } from "./funnel-figures";
import { listPayments, listSubscribers, type PaymentStatus } from "./lists";
import { byScheme, eventCounts, planFigures, type Sum, sumToWire, topPayers, volumeOverTime } from "./queries";
import { createRanges, type FiguresQuery, positionOf, type Whose } from "./ranges";
import { createServiceFigures, type ServiceFigures, settlementCostIn } from "./service-figures";
import { standing } from "./standing";
import { createSubscriptionFigures, type SubscriptionFigures } from "./subscription-figures";

export { HOURS_KEPT_DAYS } from "./ranges";

export interface ListQuery {
  readonly cursor?: string | undefined;
  readonly limit: number;
}

export interface Analytics extends SubscriptionFigures, FailedRenewalFigures, FunnelFigures, ServiceFigures {
  overview(whose: Whose, query: FiguresQuery): Promise<OverviewWire>;
  volume(whose: Whose, query: FiguresQuery & { readonly grain: "hour" | "day" }): Promise<VolumeWire>;
  plans(provider: Address, query: FiguresQuery & { readonly limit: number }): Promise<PlanFiguresWire>;
  payers(provider: Address, query: Pick<FiguresQuery, "token"> & { readonly limit: number }): Promise<PayerFiguresWire>;
  payments(
    provider: Address,
    query: ListQuery & { readonly status?: PaymentStatus | undefined; readonly payer?: Address | undefined },
  ): Promise<PaymentListWire>;
  subscribers(
    provider: Address,
    query: ListQuery & { readonly planId?: Hex | undefined; readonly subscriber?: Address | undefined },
  ): Promise<SubscriberListWire>;
}

export interface AnalyticsOptions {
  readonly db: Db;
  readonly config: FacilitatorConfig;
  readonly clock: Clock;
}

export function createAnalytics({ db, config, clock }: AnalyticsOptions): Analytics {
  const { chainId } = config;
  const { scopeOf, rangeOf } = createRanges({ config, clock });

  return {
    ...createSubscriptionFigures({ db, config, clock }),
    ...createFailedRenewals({ db, config, clock }),
    ...createFunnelFigures({ db, config, clock }),
    ...createServiceFigures({ db, config, clock }),

    async overview(whose, query) {
      const { scope, told } = scopeOf(whose, query.token);
      const range = rangeOf(query, DAY_SEC);
      const before = { fromSec: 2 * range.fromSec - range.toSec, toSec: range.fromSec };
      const [points, pointsBefore, counts, now, settlementCost] = await Promise.all([
        volumeOverTime(db, scope, range, DAY_SEC),
        volumeOverTime(db, scope, before, DAY_SEC),
        eventCounts(db, scope, range),
        standing(db, scope, clock.nowSec()),
        settlementCostIn(db, chainId, range, config.nativePrice),
      ]);
      const count = (type: string): number => counts.get(type) ?? 0;
      return {
        ...told,
        from: range.fromSec,
        to: range.toSec,
        volume: sumToWire(total(points)),
        volumeBefore: sumToWire(total(pointsBefore)),
        byScheme: schemesToWire(byScheme(points)),
        subscriptions: {
          active: now.active,
          recurring: now.recurring.toString(),
          created: count("subscription.created"),
          cancelled: count("subscription.cancelled"),
          expired: count("subscription.expired"),
        },
        renewals: {
          renewed: count("subscription.renewed"),
          pastDue: count("subscription.past_due"),
          failedAttempts: count("subscription.renewal_failed"),
        },
        payments: {
          settled: count("payment.settled"),
          failed: count("payment.failed"),
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
        plans: plans.map((plan) => ({
          planId: plan.planId,
          metadata: plan.metadata,
          price: plan.price.toString(),
          interval: plan.intervalSec,
          deprecated: plan.deprecated,
          active: plan.active,
          recurring: plan.recurring.toString(),
          ...sumToWire(plan),
          byScheme: schemesToWire(plan.byScheme),
        })),
      };
    },

    async payers(provider, { token, limit }) {
      const { scope, told } = scopeOf(provider, token);
      const payers = await topPayers(db, scope, limit);
      return { ...told, payers: payers.map(({ payer, ...sum }) => ({ payer, ...sumToWire(sum) })) };
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
        })),
        ...(last && { next: `${last.created_at}.${last.id_hash}` }),
      };
    },
  };
}

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
