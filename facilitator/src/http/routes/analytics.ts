/** A provider's figures: what the dashboard shows, as JSON and as CSV. */
import {
  overviewSchema,
  type PlanFiguresWire,
  payerFiguresSchema,
  planFiguresSchema,
  readinessSchema,
  type VolumeWire,
  volumeSchema,
} from "turnpike/facilitator";
import { addressSchema } from "turnpike/protocol";
import { z } from "zod";
import { admissionTo } from "../admission";
import { type Endpoint, endpoint } from "../endpoint";
import { bothForms, CSV_PAGE, csvSchema, figures, isoTime, money, ok, rangeOf, sheetOfPages } from "../figures";
import { limitSchema } from "../page";
import { networkAsked, networkQuerySchema } from "../request";
import type { ApiServices } from "../services";
import { analyticsListEndpoints } from "./analytics-lists";

const grain = z.enum(["hour", "day"]).default("day");

type VolumePoint = VolumeWire["points"][number];

type Plan = PlanFiguresWire["plans"][number];

const VOLUME_COLUMNS = {
  from: ({ at }: VolumePoint) => isoTime(at),
  scheme: ({ scheme }: VolumePoint) => scheme,
  count: ({ count }: VolumePoint) => count,
  amount: money(({ amount }: VolumePoint) => amount),
};

const PLAN_COLUMNS = {
  planId: ({ planId }: Plan) => planId,
  metadata: ({ metadata }: Plan) => metadata,
  price: money(({ price }: Plan) => price),
  interval: ({ interval }: Plan) => interval,
  active: ({ active }: Plan) => active,
  recurring: money(({ recurring }: Plan) => recurring),
  count: ({ count }: Plan) => count,
  amount: money(({ amount }: Plan) => amount),
  periodUnit: ({ period }: Plan) => period.unit,
  periodCount: ({ period }: Plan) => period.count,
  payTo: ({ payTo }: Plan) => payTo,
  proposedPayTo: ({ proposedPayTo }: Plan) => proposedPayTo?.payTo,
  proposedFrom: ({ proposedPayTo }: Plan) => proposedPayTo && isoTime(proposedPayTo.effectiveAt),
  deprecated: ({ deprecated }: Plan) => deprecated,
  refundCount: ({ refunds }: Plan) => refunds.count,
  refunds: money(({ refunds }: Plan) => refunds.amount),
  net: money(({ net }: Plan) => net),
  transferredTo: ({ transferredTo }: Plan) => transferredTo,
  stopped: ({ stopped }: Plan) => stopped,
};

export function analyticsEndpoints(services: ApiServices): Endpoint[] {
  const { analytics, readiness } = services;
  const admission = admissionTo(services, "read");
  const common = { method: "get", tag: "analytics", admission } as const;
  const csv = { ...common, mediaType: "text/csv", answers: { 200: csvSchema } } as const;

  return [
    endpoint({
      ...common,
      path: "/analytics/overview",
      summary: "Volume, subscriptions, renewals and payments of a range of days, beside the range before.",
      query: z.object(figures),
      answers: { 200: overviewSchema },
      handle: async ({ query, caller: { provider } }) => ok(await analytics.overview(provider, rangeOf(query))),
    }),
    ...bothForms({
      tag: "analytics",
      admission,
      path: "/analytics/volume",
      name: "volume",
      summary: "What was paid, by time and scheme.",
      query: z.object({ ...figures, grain }),
      answer: volumeSchema,
      load: (query, { provider }) => analytics.volume(provider, { ...rangeOf(query), grain: query.grain }),
      rows: ({ points }) => points,
      columns: VOLUME_COLUMNS,
    }),
    endpoint({
      ...common,
      path: "/analytics/plans",
      summary: "Each plan's price, active subscriptions and revenue in a range of days, highest revenue first.",
      query: z.object({ ...figures, limit: limitSchema }),
      answers: { 200: planFiguresSchema },
      handle: async ({ query, caller: { provider } }) =>
        ok(await analytics.plans(provider, { ...rangeOf(query), limit: query.limit })),
    }),
    endpoint({
      ...csv,
      path: "/analytics/plans.csv",
      summary:
        "The same as CSV, all of them in the order in which they were made; amounts in base units and as decimals.",
      query: z.object(figures),
      async handle({ query, caller: { provider } }) {
        const { unit, pageAfter } = analytics.allPlans(provider, rangeOf(query));
        return sheetOfPages("plans", { columns: PLAN_COLUMNS, unitOf: () => unit }, (after) =>
          pageAfter(after, CSV_PAGE),
        );
      },
    }),
    endpoint({
      ...common,
      path: "/analytics/payers",
      summary: "The payers with the highest totals, or the total of one payer.",
      query: z.object({ token: addressSchema.optional(), payer: addressSchema.optional(), limit: limitSchema }),
      answers: { 200: payerFiguresSchema },
      handle: async ({ query, caller: { provider } }) => ok(await analytics.payers(provider, query)),
    }),
    ...analyticsListEndpoints(services),
    endpoint({
      ...common,
      path: "/analytics/system",
      summary: "The checks of /readyz, always with status 200.",
      query: networkQuerySchema,
      answers: { 200: readinessSchema },
      handle: async ({ query }) => ok(readiness(networkAsked(query))),
    }),
  ];
}
