/** A provider's funnel, renewals, recurring revenue, allowances and latencies, as JSON and as CSV. */
import {
  type AllowanceListWire,
  allowanceListSchema,
  type FailedRenewalsWire,
  type FunnelWire,
  failedRenewalsSchema,
  funnelSchema,
  type LatencyWire,
  latencySchema,
  type PayerFiguresWire,
  type RecurringWire,
  type RenewalFiguresWire,
  recurringSchema,
  renewalFiguresSchema,
} from "turnpike/facilitator";
import { addressSchema, hash32Schema } from "turnpike/protocol";
import { z } from "zod";
import { admissionTo } from "../admission";
import { type Endpoint, endpoint } from "../endpoint";
import {
  bothForms,
  CSV_PAGE,
  csvSchema,
  figures,
  isoTime,
  money,
  ok,
  rangeOf,
  type Sheet,
  sheetOfPages,
} from "../figures";
import { limitSchema } from "../page";
import type { ApiServices } from "../services";

const resource = z.string().min(1).max(128).optional();

const allowanceFilter = {
  planId: hash32Schema.optional(),
  subscriber: addressSchema.optional(),
  cursor: z.string().max(128).optional(),
};

export const CAUSE_COLUMNS = {
  cause: ({ cause }: FunnelWire["causes"][number]) => cause,
  offer: ({ offer }: FunnelWire["causes"][number]) => offer,
  count: ({ count }: FunnelWire["causes"][number]) => count,
  asked: money(({ asked }: FunnelWire["causes"][number]) => asked),
  answered: money(({ answered }: FunnelWire["causes"][number]) => answered),
  lost: money(({ lost }: FunnelWire["causes"][number]) => lost),
};

export const RENEWAL_COLUMNS = {
  day: ({ at }: RenewalFiguresWire["points"][number]) => isoTime(at),
  renewed: ({ renewed }: RenewalFiguresWire["points"][number]) => renewed,
  failedAttempts: ({ failedAttempts }: RenewalFiguresWire["points"][number]) => failedAttempts,
  pastDue: ({ pastDue }: RenewalFiguresWire["points"][number]) => pastDue,
  expired: ({ expired }: RenewalFiguresWire["points"][number]) => expired,
};

type FailedCause = FailedRenewalsWire["causes"][number];

const FAILED_COLUMNS = {
  cause: ({ cause }: FailedCause) => cause,
  lostCount: ({ lost }: FailedCause) => lost.count,
  lost: money(({ lost }: FailedCause) => lost.amount),
  openCount: ({ open }: FailedCause) => open.count,
  open: money(({ open }: FailedCause) => open.amount),
  recoveredCount: ({ recovered }: FailedCause) => recovered.count,
  recovered: money(({ recovered }: FailedCause) => recovered.amount),
};

export const RECURRING_COLUMNS = {
  day: ({ at }: RecurringWire["points"][number]) => isoTime(at),
  recurring: money(({ recurring }: RecurringWire["points"][number]) => recurring),
  subscriptions: ({ subscriptions }: RecurringWire["points"][number]) => subscriptions,
  created: ({ created }: RecurringWire["points"][number]) => created,
  cancelled: ({ cancelled }: RecurringWire["points"][number]) => cancelled,
  expired: ({ expired }: RecurringWire["points"][number]) => expired,
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

const LATENCY_COLUMNS = {
  upToMs: ({ upToMs }: LatencyWire["histogram"][number]) => upToMs,
  count: ({ count }: LatencyWire["histogram"][number]) => count,
};

type Allowance = AllowanceListWire["allowances"][number];

const ALLOWANCE_COLUMNS = {
  idHash: ({ idHash }: Allowance) => idHash,
  planId: ({ planId }: Allowance) => planId,
  subscriber: ({ subscriber }: Allowance) => subscriber,
  status: ({ status }: Allowance) => status,
  cap: money(({ cap }: Allowance) => cap),
  spent: money(({ spent }: Allowance) => spent),
  remaining: money(({ remaining }: Allowance) => remaining),
  usedPercent: ({ usedPercent }: Allowance) => usedPercent,
  debits: ({ debits }: Allowance) => debits,
  cycleEnds: ({ cycleEnds }: Allowance) => isoTime(cycleEnds),
};

export function figureEndpoints(services: ApiServices): Endpoint[] {
  const { analytics } = services;
  const common = { tag: "analytics", admission: admissionTo(services, "read") };
  const csv = { ...common, method: "get", mediaType: "text/csv", answers: { 200: csvSchema } } as const;
  const allowanceSheet: Sheet<Allowance> = {
    columns: ALLOWANCE_COLUMNS,
    unitOf: ({ token }) => ({ token, decimals: analytics.decimalsOf(token) }),
  };
  return [
    ...bothForms({
      ...common,
      path: "/analytics/funnel",
      name: "funnel",
      summary:
        "From the first 402 to the answer, as the provider's gates count, and what was asked for and never followed by access, by cause.",
      query: z.object({ ...figures, resource }),
      answer: funnelSchema,
      load: (query, { provider }) => analytics.funnel(provider, { ...rangeOf(query), resource: query.resource }),
      rows: ({ causes }) => causes,
      columns: CAUSE_COLUMNS,
    }),
    ...bothForms({
      ...common,
      path: "/analytics/renewals",
      name: "renewals",
      summary: "Renewals by day, and why attempts failed.",
      query: z.object(figures),
      answer: renewalFiguresSchema,
      load: (query, { provider }) => analytics.renewals(provider, rangeOf(query)),
      rows: ({ points }) => points,
      columns: RENEWAL_COLUMNS,
    }),
    ...bothForms({
      ...common,
      path: "/analytics/failed-renewals",
      name: "failed-renewals",
      summary: "What fell due and was not charged at once, by cause: lost, still tried, or recovered.",
      query: z.object(figures),
      answer: failedRenewalsSchema,
      load: (query, { provider }) => analytics.failedRenewals(provider, rangeOf(query)),
      rows: ({ causes }) => causes,
      columns: FAILED_COLUMNS,
    }),
    ...bothForms({
      ...common,
      path: "/analytics/recurring",
      name: "recurring",
      summary: "What recurs in 30 days, for every day of the range, and how many subscriptions were lost.",
      query: z.object(figures),
      answer: recurringSchema,
      load: (query, { provider }) => analytics.recurring(provider, rangeOf(query)),
      rows: ({ points }) => points,
      columns: RECURRING_COLUMNS,
    }),
    ...bothForms({
      ...common,
      path: "/analytics/latency",
      name: "latency",
      summary: "How long one-time payments took from acceptance to settlement: percentiles of the newest of the range.",
      query: z.object(figures),
      answer: latencySchema,
      load: (query, { provider }) => analytics.latency(provider, rangeOf(query)),
      rows: ({ histogram }) => histogram,
      columns: LATENCY_COLUMNS,
    }),
    endpoint({
      ...common,
      method: "get",
      path: "/analytics/allowances",
      summary: "Allowances of the provider's subscribers with what is used of them, newest subscription first.",
      query: z.object({ ...allowanceFilter, limit: limitSchema }),
      answers: { 200: allowanceListSchema },
      handle: async ({ query, caller: { provider } }) => ok(await analytics.allowances(provider, query)),
    }),
    endpoint({
      ...csv,
      path: "/analytics/allowances.csv",
      summary: "The same as CSV, all of them; amounts in base units and as decimals.",
      query: z.object(allowanceFilter),
      handle: ({ query: { cursor, ...filter }, caller: { provider } }) =>
        sheetOfPages(
          "allowances",
          allowanceSheet,
          async (at) => {
            const page = await analytics.allowances(provider, { ...filter, cursor: at, limit: CSV_PAGE });
            return { rows: page.allowances, next: page.next };
          },
          cursor,
        ),
    }),
    endpoint({
      ...csv,
      path: "/analytics/payers.csv",
      summary: "Everyone who paid since the beginning, as CSV, by address; amounts in base units and as decimals.",
      query: z.object({ token: addressSchema.optional() }),
      async handle({ query, caller: { provider } }) {
        const { unit, pageAfter } = analytics.allPayers(provider, query.token);
        return sheetOfPages("payers", { columns: PAYER_COLUMNS, unitOf: () => unit }, (at) => pageAfter(at, CSV_PAGE));
      },
    }),
  ];
}
