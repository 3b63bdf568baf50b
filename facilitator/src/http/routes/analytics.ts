/** A provider's figures: what the dashboard shows, as JSON and as CSV. */
import {
  ANALYTICS_ENDPOINTS,
  type PayerFiguresWire,
  type PlanFiguresWire,
  type VolumeWire,
} from "turnpike/facilitator";
import { needsAttention } from "../../webhooks/endpoints";
import { type Endpoint, ok, routes } from "../endpoint";
import { bothForms, CSV_PAGE, isoTime, money, rangeOf, sheetOfPages } from "../figures";
import { networkAsked } from "../request";
import type { ApiServices } from "../services";
import { listHandlers } from "./analytics-lists";

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

type Payer = PayerFiguresWire["payers"][number];

const PAYER_COLUMNS = {
  payer: ({ payer }: Payer) => payer,
  count: ({ count }: Payer) => count,
  amount: money(({ amount }: Payer) => amount),
  refundCount: ({ refunds }: Payer) => refunds.count,
  refunds: money(({ refunds }: Payer) => refunds.amount),
  net: money(({ net }: Payer) => net),
};

export function analyticsEndpoints(services: ApiServices): Endpoint[] {
  const { analytics, providers, readiness } = services;
  return routes(services, ANALYTICS_ENDPOINTS, {
    getOverview: async ({ query, caller: { provider } }) => ok(await analytics.overview(provider, rangeOf(query))),
    ...bothForms(ANALYTICS_ENDPOINTS.getVolume, {
      name: "volume",
      load: (query, { provider }) => analytics.volume(provider, { ...rangeOf(query), grain: query.grain }),
      rows: ({ points }) => points,
      columns: VOLUME_COLUMNS,
    }),
    getPlanFigures: async ({ query, caller: { provider } }) =>
      ok(await analytics.plans(provider, { ...rangeOf(query), ...query })),
    async getPlanFiguresCsv({ query, caller: { provider } }) {
      const { unit, pageAfter } = analytics.allPlans(provider, rangeOf(query));
      return sheetOfPages("plans", { columns: PLAN_COLUMNS, unitOf: () => unit }, (after) =>
        pageAfter(after, CSV_PAGE),
      );
    },
    getPayers: async ({ query, caller: { provider } }) => ok(await analytics.payers(provider, query)),
    async getPayersCsv({ query, caller: { provider } }) {
      const { unit, pageAfter } = analytics.allPayers(provider, query.token);
      return sheetOfPages("payers", { columns: PAYER_COLUMNS, unitOf: () => unit }, (at) => pageAfter(at, CSV_PAGE));
    },
    ...listHandlers(analytics),
    async getAttention({ caller }) {
      const [attention, endpoints] = await Promise.all([
        analytics.attention(caller.provider),
        providers.endpoints.list(caller),
      ]);
      return ok({ ...attention, endpoints: endpoints.filter(needsAttention) });
    },
    getSystem: async ({ query }) => ok(readiness(networkAsked(query))),
  });
}
