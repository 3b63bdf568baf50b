import { type FunnelStep, type FunnelWire, SCHEMES } from "turnpike/facilitator";
import { DAY_SEC } from "../lib/durations";
import { begunIn } from "./begun";
import { isAsked, isReplay, type Outcome, outcomesOf, type Reported, reportedIn, sumOf, together } from "./funnel";
import { type Sum, sumOfKinds, sumsByKind, sumToWire } from "./queries";
import { type AnalyticsOptions, createRanges, type FiguresQuery, type Whose } from "./ranges";
import { FAILED_PAYMENTS } from "./rollups";

export interface FunnelFigures {
  funnel(whose: Whose, query: FiguresQuery & { readonly resource?: string | undefined }): Promise<FunnelWire>;
}

const NOTHING: Sum = { count: 0, amount: 0n };

export function createFunnelFigures({ db, config, clock }: AnalyticsOptions): FunnelFigures {
  const { scopeOf, rangeOf } = createRanges({ config, clock });
  return {
    async funnel(whose, { resource, ...query }) {
      const { scope, unit } = scopeOf(whose, query.token);
      const range = rangeOf(query, DAY_SEC);
      const [reported, sums] = await Promise.all([reportedIn(db, scope, range), sumsByKind(db, scope, range)]);
      const begun = await begunIn(db, scope, range, sums);
      const settled = sumOfKinds(sums, ["one-time"]);
      const bySubscription = sumOfKinds(sums, SCHEMES).amount - settled.amount;
      const isChosen = (row: { readonly resource: string }): boolean =>
        resource === undefined || row.resource === resource;
      // A resource's share is the same whether it is queried alone or with the others.
      const all = outcomesOf(reported, begun);
      const outcomes = all.filter(isChosen);
      const rows = reported.filter(isChosen);
      const isWhole = resource === undefined;
      const steps: readonly (readonly [FunnelStep, Sum])[] = [
        ["asked", sumOf(rows, isAsked)],
        // Counts only settled and failed authorizations. Pending ones count once they end, so none counts twice.
        ["signed", isWhole ? sumOfKinds(sums, ["one-time", FAILED_PAYMENTS]) : NOTHING],
        ["settled", isWhole ? settled : NOTHING],
        ["paid", sumOf(rows, isStep("paid"))],
        ["served", sumOf(rows, isServedOnce)],
      ];
      const answeredBy = (offer: Outcome["offer"]): bigint =>
        sumAnswered(outcomes.filter((one) => one.offer === offer));
      const answered = sumAnswered(outcomes);
      const asked = outcomes.reduce((sum, one) => sum + one.asked, 0n);
      return {
        ...unit,
        from: range.fromSec,
        to: range.toSec,
        ...(resource !== undefined && { resource }),
        steps: steps.map(([step, sum]) => ({ step, ...sumToWire(sum) })),
        causes: together(outcomes, ({ cause, offer }) => `${cause} ${offer}`).map((one) => ({
          cause: one.cause,
          offer: one.offer,
          count: one.count,
          ...moneyOf(one),
        })),
        turnedAway: turnedAway(rows),
        failed: sumOf(rows, isStep("failed")).count,
        bySubscription: { count: sumOf(rows, isServedBySubscription).count },
        answered: answered.toString(),
        answeredBy: {
          "one-time": answeredBy("one-time").toString(),
          subscription: answeredBy("subscription").toString(),
        },
        received: {
          "one-time": (isWhole ? settled.amount : 0n).toString(),
          subscription: (isWhole ? bySubscription : 0n).toString(),
        },
        lost: (asked - answered).toString(),
        lostReports: sumOf(rows, isStep("lost")).count,
        resources: whose === "everyone" ? [] : resourcesOf(rows, outcomes),
      };
    },
  };
}

const isStep =
  (wanted: string) =>
  ({ step }: Reported): boolean =>
    step === wanted;

const isServedOnce = ({ step, offer }: Reported): boolean => step === "served" && offer !== "subscription";

const isServedBySubscription = ({ step, offer }: Reported): boolean => step === "served" && offer === "subscription";

const sumAnswered = (outcomes: readonly Outcome[]): bigint => outcomes.reduce((sum, one) => sum + one.answered, 0n);

const moneyOf = ({ asked, answered, lost }: Outcome & { readonly lost: bigint }) => ({
  asked: asked.toString(),
  answered: answered.toString(),
  lost: lost.toString(),
});

/** Requests without a price, and with one that was paid before. */
function turnedAway(rows: readonly Reported[]): FunnelWire["turnedAway"] {
  const counts = new Map<string, number>();
  for (const row of rows) {
    if (row.step === "turned_away" || isReplay(row)) counts.set(row.cause, (counts.get(row.cause) ?? 0) + row.count);
  }
  return [...counts].map(([cause, count]) => ({ cause, count })).sort((a, b) => b.count - a.count);
}

function resourcesOf(rows: readonly Reported[], outcomes: readonly Outcome[]): FunnelWire["resources"] {
  const asked = new Map(together(outcomes, ({ resource }) => resource).map((one) => [one.resource, one]));
  const names = [...new Set(rows.map(({ resource }) => resource))];
  const nothing = { count: 0, asked: 0n, answered: 0n, lost: 0n };
  return names
    .map((resource) => {
      const own = rows.filter((row) => row.resource === resource);
      const { count, ...money } = asked.get(resource) ?? nothing;
      return { resource, own, count, money };
    })
    .sort((a, b) => (a.money.asked === b.money.asked ? 0 : a.money.asked < b.money.asked ? 1 : -1))
    .map(({ resource, own, count, money }) => ({
      resource,
      asked: sumToWire({ count, amount: money.asked }),
      answered: money.answered.toString(),
      paid: sumToWire(sumOf(own, isStep("paid"))),
      served: sumToWire(sumOf(own, isServedOnce)),
      bySubscription: { count: sumOf(own, isServedBySubscription).count },
      lost: money.lost.toString(),
    }));
}
