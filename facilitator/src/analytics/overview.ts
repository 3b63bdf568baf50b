import { type OverviewWire, SCHEMES, type VolumeWire } from "turnpike/facilitator";
import { DAY_SEC, HOUR_SEC } from "../lib/durations";
import { endingsIn } from "./endings";
import { payeeProposals } from "./plan-figures";
import {
  firstDay,
  netOf,
  netToWire,
  schemesToWire,
  sumOfKinds,
  sumsByKind,
  sumToWire,
  volumeOverTime,
} from "./queries";
import { type AnalyticsOptions, createRanges, type FiguresQuery, type Whose } from "./ranges";
import { FAILED_PAYMENTS, TRIAL } from "./rollups";
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
      const [sums, sumsBefore, alone, { ended }, sinceSec, now, settlementCost, proposals] = await Promise.all([
        sumsByKind(db, scope, range),
        sumsByKind(db, scope, before),
        sumsByKind(db, { ...scope, token: "" }, range),
        endingsIn(db, scope, range),
        firstDay(db, scope),
        standing(db, scope, clock.nowSec()),
        settlementCostIn(db, chainId, range, config.nativePrice),
        payeeProposals(db, scope),
      ]);
      const count = (kind: string): number => sums.get(kind)?.count ?? 0;
      const countAlone = (type: string): number => alone.get(type)?.count ?? 0;
      const { refunds, net, ...volume } = netToWire(netOf(sums));
      return {
        ...unit,
        from: range.fromSec,
        to: range.toSec,
        ...(sinceSec !== undefined && { since: sinceSec }),
        volume,
        refunds,
        net,
        volumeBefore: sumToWire(sumOfKinds(sumsBefore, SCHEMES)),
        byScheme: schemesToWire(sums),
        subscriptions: {
          active: now.active,
          recurring: now.recurring.toString(),
          created: count("subscription.created"),
          cancelled: count("subscription.cancelled"),
          expired: count("subscription.expired"),
          ended,
          trials: { begun: countAlone(TRIAL.begun), converted: countAlone(TRIAL.converted) },
        },
        payeeProposals: proposals,
        renewals: {
          renewed: count("renewal"),
          pastDue: countAlone("subscription.past_due"),
          failedAttempts: countAlone("subscription.renewal_failed"),
        },
        payments: {
          settled: count("one-time"),
          failed: count(FAILED_PAYMENTS),
          reversed: countAlone("payment.reversed"),
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
