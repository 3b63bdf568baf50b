/** Figures of all providers together, and the service's costs: only for the wallets that OPERATORS names. */
import {
  costsSchema,
  funnelSchema,
  operatorOverviewSchema,
  type ProviderFiguresWire,
  providerFiguresSchema,
  recurringSchema,
  renewalFiguresSchema,
  type ServiceCostsWire,
  systemSchema,
  type VolumeWire,
  volumeSchema,
} from "turnpike/facilitator";
import { z } from "zod";
import { operatorAdmission } from "../admission";
import { type Endpoint, endpoint } from "../endpoint";
import { bothForms, figures, isoTime, money, ok, rangeOf } from "../figures";
import { limitSchema } from "../page";
import type { ApiServices } from "../services";
import { CAUSE_COLUMNS, RECURRING_COLUMNS, RENEWAL_COLUMNS } from "./figures";

type Provider = ProviderFiguresWire["providers"][number];

type Cost = ServiceCostsWire["points"][number];

type Volume = VolumeWire["points"][number];

export function operatorFigureEndpoints(services: ApiServices): Endpoint[] {
  const { analytics } = services;
  const common = { tag: "operator", admission: operatorAdmission(services) };
  return [
    endpoint({
      ...common,
      method: "get",
      path: "/operator/overview",
      summary: "Volume, subscriptions, renewals and payments of all providers together, beside the range before.",
      query: z.object(figures),
      answers: { 200: operatorOverviewSchema },
      async handle({ query }) {
        const range = rangeOf(query);
        const [overview, providers] = await Promise.all([
          analytics.overview("everyone", range),
          analytics.countProviders(range),
        ]);
        return ok({ ...overview, providers });
      },
    }),
    ...bothForms({
      ...common,
      path: "/operator/volume",
      name: "service-volume",
      summary: "What was paid to all providers, by time and scheme.",
      query: z.object({ ...figures, grain: z.enum(["hour", "day"]).default("day") }),
      answer: volumeSchema,
      load: (query) => analytics.volume("everyone", { ...rangeOf(query), grain: query.grain }),
      rows: ({ points }) => points,
      columns: {
        from: ({ at }: Volume) => isoTime(at),
        scheme: ({ scheme }) => scheme,
        count: ({ count }) => count,
        amount: money(({ amount }: Volume) => amount),
      },
    }),
    ...bothForms({
      ...common,
      path: "/operator/providers",
      name: "providers",
      summary: "What each provider was paid, highest volume first.",
      query: z.object({ ...figures, limit: limitSchema }),
      answer: providerFiguresSchema,
      load: (query) => analytics.providers({ ...rangeOf(query), limit: query.limit }),
      loadAll: (query) => analytics.providers({ ...rangeOf(query), limit: undefined }),
      rows: ({ providers }) => providers,
      columns: {
        provider: ({ provider }: Provider) => provider,
        count: ({ count }) => count,
        amount: money(({ amount }: Provider) => amount),
      },
    }),
    ...bothForms({
      ...common,
      path: "/operator/funnel",
      name: "service-funnel",
      summary:
        "From the first 402 to the answer, over all gates, and what was asked for and never followed by access, by cause.",
      query: z.object(figures),
      answer: funnelSchema,
      load: (query) => analytics.funnel("everyone", rangeOf(query)),
      rows: ({ causes }) => causes,
      columns: CAUSE_COLUMNS,
    }),
    ...bothForms({
      ...common,
      path: "/operator/renewals",
      name: "service-renewals",
      summary: "Renewals of all providers by day, and why attempts failed.",
      query: z.object(figures),
      answer: renewalFiguresSchema,
      load: (query) => analytics.renewals("everyone", rangeOf(query)),
      rows: ({ points }) => points,
      columns: RENEWAL_COLUMNS,
    }),
    ...bothForms({
      ...common,
      path: "/operator/recurring",
      name: "service-recurring",
      summary: "What recurs for all providers in 30 days, for every day of the range.",
      query: z.object(figures),
      answer: recurringSchema,
      load: (query) => analytics.recurring("everyone", rangeOf(query)),
      rows: ({ points }) => points,
      columns: RECURRING_COLUMNS,
    }),
    ...bothForms({
      ...common,
      path: "/operator/costs",
      name: "costs",
      summary:
        "What final transactions have cost by purpose and by day, and for each payment, renewal or debit in them.",
      query: z.object(figures),
      answer: costsSchema,
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
  ];
}

/** Data about the service as a whole, for the wallets that OPERATORS names. */
export function operatorEndpoints(services: ApiServices): Endpoint[] {
  return [
    endpoint({
      method: "get",
      path: "/operator/system",
      tag: "operator",
      summary: "Chain, lanes with their gas money, queues, and what the last day has cost.",
      admission: operatorAdmission(services),
      answers: { 200: systemSchema },
      handle: async () => ({ status: 200, body: await services.system() }),
    }),
  ];
}
