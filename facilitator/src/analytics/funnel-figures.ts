/** The funnel in the words of the wire. */
import type { FunnelStep, FunnelWire } from "turnpike/facilitator";
import { DAY_SEC } from "../store/rollups";
import type { AnalyticsOptions } from ".";
import { lossesOf, type Reported, reportedByResource, reportedIn, sumOfSteps } from "./funnel";
import { byScheme, eventCounts, type Sum, sumToWire, volumeOverTime } from "./queries";
import { createRanges, type FiguresQuery, type Whose } from "./ranges";

export interface FunnelFigures {
  funnel(whose: Whose, query: FiguresQuery & { readonly resource?: string | undefined }): Promise<FunnelWire>;
}

const MAX_RESOURCES = 100;
const NOTHING: Sum = { count: 0, amount: 0n };

export function createFunnelFigures({ db, config, clock }: AnalyticsOptions): FunnelFigures {
  const { scopeOf, rangeOf } = createRanges({ config, clock });
  return {
    async funnel(whose, { resource, ...query }) {
      const { scope, told } = scopeOf(whose, query.token);
      const range = rangeOf(query, DAY_SEC);
      const isWhole = resource === undefined;
      const [reported, byResource, volume, counts] = await Promise.all([
        reportedIn(db, scope, range, resource),
        isWhole && whose !== "everyone" ? reportedByResource(db, scope, range, MAX_RESOURCES) : [],
        isWhole ? volumeOverTime(db, scope, range, DAY_SEC) : [],
        isWhole ? eventCounts(db, scope, range) : new Map<string, number>(),
      ]);
      const schemes = byScheme(volume);
      const settled = schemes.get("one-time") ?? NOTHING;
      const periods = (["signup", "resume", "plan-change"] as const).map((scheme) => schemes.get(scheme)?.amount ?? 0n);
      const paid = sumOfSteps(reported, "paid");
      const losses = lossesOf(reported, { "one-time": paid.amount, subscription: periods.reduce((a, b) => a + b, 0n) });
      const steps: readonly (readonly [FunnelStep, Sum])[] = [
        ["asked", sumOfSteps(reported, "asked", "refused")],
        // What it was for is settled or failed in the end: the few under way are not signed twice by being counted later.
        ["signed", { count: settled.count + (counts.get("payment.failed") ?? 0), amount: settled.amount }],
        ["settled", settled],
        ["paid", paid],
        ["served", sumOfSteps(reported.filter(isOneTime), "served")],
      ];
      return {
        ...told,
        from: range.fromSec,
        to: range.toSec,
        ...(resource !== undefined && { resource }),
        steps: steps.map(([step, sum]) => ({ step, ...sumToWire(sum) })),
        causes: losses.map(({ cause, offer, count, asked, lost }) => ({
          ...{ cause, offer, count, asked: asked.toString(), lost: lost.toString() },
        })),
        turnedAway: reported
          .filter(({ step }) => step === "turned_away")
          .map(({ cause, count }) => ({ cause, count }))
          .sort((a, b) => b.count - a.count),
        failed: sumOfSteps(reported, "failed").count,
        bySubscription: { count: sumOfSteps(reported, "subscribed").count },
        lost: losses.reduce((sum, { lost }) => sum + lost, 0n).toString(),
        lostReports: sumOfSteps(reported, "lost").count,
        resources: byResource.map(({ resource: name, asked, paid: got, served }) => ({
          resource: name,
          asked: sumToWire(asked),
          paid: sumToWire(got),
          served: sumToWire(served),
          lost: (asked.amount > got.amount ? asked.amount - got.amount : 0n).toString(),
        })),
      };
    },
  };
}

const isOneTime = ({ offer }: Reported): boolean => offer !== "subscription";
