/** Figures of all providers together, and the service's costs: only for the wallets that OPERATORS names. */
import {
  OPERATOR_ENDPOINTS,
  type ProviderFiguresWire,
  type ServiceCostsWire,
  type VolumeWire,
} from "turnpike/facilitator";
import { type Endpoint, ok, routes } from "../endpoint";
import { bothForms, isoTime, money, rangeOf } from "../figures";
import type { ApiServices } from "../services";
import { CAUSE_COLUMNS, RECURRING_COLUMNS, RENEWAL_COLUMNS } from "./figures";

type Provider = ProviderFiguresWire["providers"][number];

type Cost = ServiceCostsWire["points"][number];

type Volume = VolumeWire["points"][number];

export function operatorFigureEndpoints(services: ApiServices): Endpoint[] {
  const { analytics } = services;
  return routes(services, OPERATOR_ENDPOINTS, {
    getOperatorSystem: async () => ok(await services.system()),
    async getOperatorOverview({ query }) {
      const range = rangeOf(query);
      const [overview, providers] = await Promise.all([
        analytics.overview("everyone", range),
        analytics.countProviders(range),
      ]);
      return ok({ ...overview, providers });
    },
    ...bothForms(OPERATOR_ENDPOINTS.getOperatorVolume, {
      name: "service-volume",
      load: (query) => analytics.volume("everyone", { ...rangeOf(query), grain: query.grain }),
      rows: ({ points }) => points,
      columns: {
        from: ({ at }: Volume) => isoTime(at),
        scheme: ({ scheme }) => scheme,
        count: ({ count }) => count,
        amount: money(({ amount }: Volume) => amount),
      },
    }),
    ...bothForms(OPERATOR_ENDPOINTS.getOperatorProviders, {
      name: "providers",
      load: (query) => analytics.providers({ ...rangeOf(query), limit: query.limit }),
      rows: ({ providers }) => providers,
      columns: {
        provider: ({ provider }: Provider) => provider,
        count: ({ count }) => count,
        amount: money(({ amount }: Provider) => amount),
      },
    }),
    ...bothForms(OPERATOR_ENDPOINTS.getOperatorFunnel, {
      name: "service-funnel",
      load: (query) => analytics.funnel("everyone", rangeOf(query)),
      rows: ({ causes }) => causes,
      columns: CAUSE_COLUMNS,
    }),
    ...bothForms(OPERATOR_ENDPOINTS.getOperatorRenewals, {
      name: "service-renewals",
      load: (query) => analytics.renewals("everyone", rangeOf(query)),
      rows: ({ points }) => points,
      columns: RENEWAL_COLUMNS,
    }),
    ...bothForms(OPERATOR_ENDPOINTS.getOperatorRecurring, {
      name: "service-recurring",
      load: (query) => analytics.recurring("everyone", rangeOf(query)),
      rows: ({ points }) => points,
      columns: RECURRING_COLUMNS,
    }),
    ...bothForms(OPERATOR_ENDPOINTS.getOperatorCosts, {
      name: "costs",
      load: (query) => analytics.costs(rangeOf(query)),
      rows: ({ points }) => points,
      columns: {
        day: ({ at }: Cost) => isoTime(at),
        purpose: ({ purpose }) => purpose,
        transactions: ({ transactions }) => transactions,
        items: ({ items }) => items,
        gas: ({ gas }) => gas,
        wei: ({ wei }) => wei,
        centsPerItem: ({ centsPerItem }) => centsPerItem,
      },
    }),
  });
}
