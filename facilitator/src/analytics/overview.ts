import type { OverviewWire, VolumeWire } from "turnpike/facilitator";
import { DAY_SEC, HOUR_SEC } from "../lib/durations";
import { failedPaymentsIn, lifecycleIn } from "./lifecycle";
import { payeeProposals } from "./plan-figures";
import {
  byScheme,
  eventCounts,
  firstDay,
  refundsIn,
  type Sum,
  schemesToWire,
  sumToWire,
  volumeOverTime,
} from "./queries";
import { type AnalyticsOptions, createRanges, type FiguresQuery, type Whose } from "./ranges";
import { TRIAL } from "./rollups";
import { settlementCostIn } from "./service-figures";
import { standing } from "./standing";

export interface OverviewFigures {
  overview(whose: Whose, query: FiguresQuery): Promise<OverviewWire>;
  volume(whose: Whose, query: FiguresQuery & { readonly grain: "hour" | "day" }): Promise<VolumeWire>;
}

export function createOverviewFigures({ db, config, clock }: AnalyticsOptions): OverviewFigures {
  const { chainId } = config;
  const { scopeOf, rangeOf } = createRanges({ config, clock });
  return {
    async overview(whose, query) {
      const { scope, unit } = scopeOf(whose, query.token);
      const range = rangeOf(query, DAY_SEC);
      const before = { fromSec: 2 * range.fromSec - range.toSec, toSec: range.fromSec };
      const [points, pointsBefore, refunds, counts, changes, failed, sinceSec, now, settlementCost, proposals] =
        await Promise.all([
          volumeOverTime(db, scope, range, DAY_SEC),
          volumeOverTime(db, scope, before, DAY_SEC),
          refundsIn(db, scope, range),
          eventCounts(db, scope, range),
          lifecycleIn(db, { scope, range, hasOtherTokens: config.tokens.length > 1 }),
          failedPaymentsIn(db, scope, range),
          firstDay(db, scope),
          standing(db, scope, clock.nowSec()),
          settlementCostIn(db, chainId, range, config.nativePrice),
          payeeProposals(db, scope),
        ]);
      const count = (type: string): number => counts.get(type) ?? 0;
      const schemes = byScheme(points);
      return {
        ...unit,
        from: range.fromSec,
        to: range.toSec,
        ...(sinceSec !== undefined && { since: sinceSec }),
        volume: sumToWire(total(points)),
        refunds: sumToWire(refunds),
        net: (total(points).amount - refunds.amount).toString(),
        volumeBefore: sumToWire(total(pointsBefore)),
        byScheme: schemesToWire(schemes),
        subscriptions: {
          active: now.active,
          recurring: now.recurring.toString(),
          created: changes.created,
          cancelled: changes.cancelled,
          expired: changes.expired,
          ended: changes.ended,
          trials: { begun: count(TRIAL.begun), converted: count(TRIAL.converted) },
        },
        payeeProposals: proposals,
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
      const { scope, unit } = scopeOf(whose, query.token);
      const grain = query.grain === "hour" ? HOUR_SEC : DAY_SEC;
      const range = rangeOf(query, grain);
      const points = await volumeOverTime(db, scope, range, grain);
      return {
        ...unit,
        grain: query.grain,
        from: range.fromSec,
        to: range.toSec,
        points: points.map(({ atSec, scheme, ...sum }) => ({ at: atSec, scheme, ...sumToWire(sum) })),
      };
    },
  };
}

function total(points: readonly Sum[]): Sum {
  return points.reduce((sum, point) => ({ count: sum.count + point.count, amount: sum.amount + point.amount }), {
    count: 0,
    amount: 0n,
  });
}
