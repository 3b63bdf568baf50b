/** A provider's figures and lists: what the dashboard shows, as JSON and as CSV. */
import {
  type ChargeListWire,
  chargeListSchema,
  overviewSchema,
  type PaymentListWire,
  type PlanFiguresWire,
  payerFiguresSchema,
  paymentListSchema,
  planFiguresSchema,
  readinessSchema,
  type SubscriberListWire,
  subscriberListSchema,
  type VolumeWire,
  volumeSchema,
} from "turnpike/facilitator";
import { addressSchema, hash32Schema } from "turnpike/protocol";
import { z } from "zod";
import { admissionTo } from "../admission";
import { type Endpoint, endpoint } from "../endpoint";
import { bothForms, CSV_PAGE, csvSchema, figures, isoTime, money, ok, rangeOf, sheetOfPages } from "../figures";
import { limitSchema } from "../page";
import type { ApiServices } from "../services";

const grain = z.enum(["hour", "day"]).default("day");

const cursor = z.string().max(128).optional();

const paymentFilter = {
  status: z.enum(["pending", "settled", "failed"]).optional(),
  payer: addressSchema.optional(),
};

const chargeFilter = { payer: addressSchema, token: addressSchema.optional() };

const subscriberFilter = { planId: hash32Schema.optional(), subscriber: addressSchema.optional() };

type VolumePoint = VolumeWire["points"][number];

type Plan = PlanFiguresWire["plans"][number];

type Payment = PaymentListWire["payments"][number];

type Subscriber = SubscriberListWire["subscriptions"][number];

type Charge = ChargeListWire["charges"][number];

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
};

const PAYMENT_COLUMNS = {
  id: ({ id }: Payment) => id,
  acceptedAt: ({ acceptedAt }: Payment) => isoTime(acceptedAt),
  settledAt: ({ settledAt }: Payment) => (settledAt === undefined ? "" : isoTime(settledAt)),
  status: ({ status }: Payment) => status,
  amount: money(({ amount }: Payment) => amount),
  payer: ({ payer }: Payment) => payer,
  resource: ({ resource }: Payment) => resource,
  transaction: ({ transaction }: Payment) => transaction,
  reason: ({ reason }: Payment) => reason,
};

const SUBSCRIBER_COLUMNS = {
  idHash: ({ idHash }: Subscriber) => idHash,
  status: ({ status }: Subscriber) => status,
  planId: ({ planId }: Subscriber) => planId,
  subscriber: ({ subscriber }: Subscriber) => subscriber,
  createdAt: ({ createdAt }: Subscriber) => isoTime(createdAt),
  paidThrough: ({ paidThrough }: Subscriber) => isoTime(paidThrough),
  cap: money(({ allowance }: Subscriber) => allowance.cap),
  spent: money(({ allowance }: Subscriber) => allowance.spent),
};

const CHARGE_COLUMNS = {
  at: ({ at }: Charge) => isoTime(at),
  scheme: ({ scheme }: Charge) => scheme,
  amount: money(({ amount }: Charge) => amount),
  subject: ({ subject }: Charge) => subject,
  transaction: ({ transaction }: Charge) => transaction,
};

export function analyticsEndpoints(services: ApiServices): Endpoint[] {
  const { analytics, readiness } = services;
  const admission = admissionTo(services, "read");
  const common = { method: "get", tag: "analytics", admission } as const;
  const csv = { ...common, mediaType: "text/csv", answers: { 200: csvSchema } } as const;
  const unitOf = ({ token }: { readonly token: string }) => ({ token, decimals: analytics.decimalsOf(token) });

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
      ...{ tag: "analytics", admission },
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
        const { told, pageAfter } = analytics.allPlans(provider, rangeOf(query));
        return sheetOfPages("plans", { columns: PLAN_COLUMNS, unitOf: () => told }, (after) =>
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
    endpoint({
      ...common,
      path: "/analytics/payments",
      summary: "One-time payments, newest first.",
      query: z.object({ ...paymentFilter, cursor, limit: limitSchema }),
      answers: { 200: paymentListSchema },
      handle: async ({ query, caller: { provider } }) => ok(await analytics.payments(provider, query)),
    }),
    endpoint({
      ...csv,
      path: "/analytics/payments.csv",
      summary:
        "The same as CSV, all of them; amounts in base units and as decimals. acceptedAt is the service's clock and settledAt the chain's: their difference is no duration.",
      query: z.object({ ...paymentFilter, cursor }),
      handle: ({ query: { cursor: from, ...filter }, caller: { provider } }) =>
        sheetOfPages(
          "payments",
          { columns: PAYMENT_COLUMNS, unitOf },
          async (at) => {
            const { payments, next } = await analytics.payments(provider, { ...filter, cursor: at, limit: CSV_PAGE });
            return { rows: payments, next };
          },
          from,
        ),
    }),
    endpoint({
      ...common,
      path: "/analytics/charges",
      summary: "What the subscriptions of one payer were charged, in one token, newest first.",
      query: z.object({ ...chargeFilter, cursor, limit: limitSchema }),
      answers: { 200: chargeListSchema },
      handle: async ({ query, caller: { provider } }) => ok(await analytics.charges(provider, query)),
    }),
    endpoint({
      ...csv,
      path: "/analytics/charges.csv",
      summary: "The same as CSV, all of it; amounts in base units and as decimals.",
      query: z.object({ ...chargeFilter, cursor }),
      handle: ({ query: { cursor: from, ...filter }, caller: { provider } }) =>
        sheetOfPages(
          "charges",
          { columns: CHARGE_COLUMNS, unitOf },
          async (at) => {
            const { charges, next } = await analytics.charges(provider, { ...filter, cursor: at, limit: CSV_PAGE });
            return { rows: charges, next };
          },
          from,
        ),
    }),
    endpoint({
      ...common,
      path: "/analytics/subscriptions",
      summary: "Subscriptions to the provider's plans, newest first, with their allowances.",
      query: z.object({ ...subscriberFilter, cursor, limit: limitSchema }),
      answers: { 200: subscriberListSchema },
      handle: async ({ query, caller: { provider } }) => ok(await analytics.subscribers(provider, query)),
    }),
    endpoint({
      ...csv,
      path: "/analytics/subscriptions.csv",
      summary: "The same as CSV, all of them; amounts in base units and as decimals.",
      query: z.object({ ...subscriberFilter, cursor }),
      handle: ({ query: { cursor: from, ...filter }, caller: { provider } }) =>
        sheetOfPages(
          "subscriptions",
          { columns: SUBSCRIBER_COLUMNS, unitOf },
          async (at) => {
            const page = await analytics.subscribers(provider, { ...filter, cursor: at, limit: CSV_PAGE });
            return { rows: page.subscriptions, next: page.next };
          },
          from,
        ),
    }),
    endpoint({
      ...common,
      path: "/analytics/system",
      summary: "The checks of /readyz, always with status 200.",
      answers: { 200: readinessSchema },
      handle: async () => ok(readiness()),
    }),
  ];
}
