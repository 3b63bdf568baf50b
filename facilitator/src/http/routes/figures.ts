/** A provider's funnel, renewals, recurring revenue, allowances and latencies, as JSON and as CSV. */
import {
  type AllowanceListWire,
  type FailedRenewalsWire,
  FIGURE_ENDPOINTS,
  type FunnelWire,
  type LatencyWire,
  type RecurringWire,
  type RenewalFiguresWire,
} from "turnpike/facilitator";
import { type Endpoint, ok, routes } from "../endpoint";
import { bothForms, CSV_PAGE, isoTime, money, rangeOf, type Sheet, sheetOfPages } from "../figures";
import type { ApiServices } from "../services";

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
  const allowanceSheet: Sheet<Allowance> = {
    columns: ALLOWANCE_COLUMNS,
    unitOf: ({ token }) => ({ token, decimals: analytics.decimalsOf(token) }),
  };
  return routes(services, FIGURE_ENDPOINTS, {
    ...bothForms(FIGURE_ENDPOINTS.getFunnel, {
      name: "funnel",
      load: (query, { provider }) => analytics.funnel(provider, { ...rangeOf(query), resource: query.resource }),
      rows: ({ causes }) => causes,
      columns: CAUSE_COLUMNS,
    }),
    ...bothForms(FIGURE_ENDPOINTS.getRenewals, {
      name: "renewals",
      load: (query, { provider }) => analytics.renewals(provider, rangeOf(query)),
      rows: ({ points }) => points,
      columns: RENEWAL_COLUMNS,
    }),
    ...bothForms(FIGURE_ENDPOINTS.getFailedRenewals, {
      name: "failed-renewals",
      load: (query, { provider }) => analytics.failedRenewals(provider, rangeOf(query)),
      rows: ({ causes }) => causes,
      columns: FAILED_COLUMNS,
    }),
    ...bothForms(FIGURE_ENDPOINTS.getRecurring, {
      name: "recurring",
      load: (query, { provider }) => analytics.recurring(provider, rangeOf(query)),
      rows: ({ points }) => points,
      columns: RECURRING_COLUMNS,
    }),
    ...bothForms(FIGURE_ENDPOINTS.getLatency, {
      name: "latency",
      load: (query, { provider }) => analytics.latency(provider, rangeOf(query)),
      rows: ({ histogram }) => histogram,
      columns: LATENCY_COLUMNS,
    }),
    listAllowances: async ({ query, caller: { provider } }) => ok(await analytics.allowances(provider, query)),
    listAllowancesCsv: ({ query: { cursor, ...filter }, caller: { provider } }) =>
      sheetOfPages(
        "allowances",
        allowanceSheet,
        async (at) => {
          const page = await analytics.allowances(provider, { ...filter, cursor: at, limit: CSV_PAGE });
          return { rows: page.allowances, next: page.next };
        },
        cursor,
      ),
  });
}
