/** A provider's figures and lists: what the dashboard shows, and the same as CSV. */
import {
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
import type { Doors } from "../app";
import { type Sheet, toCsv } from "../csv";
import { type Endpoint, endpoint } from "../endpoint";
import { CSV_ROWS, figures, isoTime, ok, rangeOf, sheet } from "../figures";
import { limitSchema } from "../page";

const grain = z.enum(["hour", "day"]).default("day");
const cursor = z.string().max(128).optional();
const paymentFilter = {
  status: z.enum(["pending", "settled", "failed"]).optional(),
  payer: addressSchema.optional(),
};
const subscriberFilter = { planId: hash32Schema.optional(), subscriber: addressSchema.optional() };

type VolumePoint = VolumeWire["points"][number];
type Plan = PlanFiguresWire["plans"][number];
type Payment = PaymentListWire["payments"][number];
type Subscriber = SubscriberListWire["subscriptions"][number];

const SHEETS = {
  volume: {
    columns: {
      from: ({ at }: VolumePoint) => isoTime(at),
      scheme: ({ scheme }) => scheme,
      count: ({ count }) => count,
      amount: ({ amount }) => amount,
    },
  } satisfies Sheet<VolumePoint>,
  plans: {
    columns: {
      planId: ({ planId }: Plan) => planId,
      metadata: ({ metadata }) => metadata,
      price: ({ price }) => price,
      interval: ({ interval }) => interval,
      active: ({ active }) => active,
      recurring: ({ recurring }) => recurring,
      count: ({ count }) => count,
      amount: ({ amount }) => amount,
    },
  } satisfies Sheet<Plan>,
  payments: {
    columns: {
      id: ({ id }: Payment) => id,
      acceptedAt: ({ acceptedAt }) => isoTime(acceptedAt),
      settledAt: ({ settledAt }) => (settledAt === undefined ? "" : isoTime(settledAt)),
      status: ({ status }) => status,
      amount: ({ amount }) => amount,
      token: ({ token }) => token,
      payer: ({ payer }) => payer,
      resource: ({ resource }) => resource,
      transaction: ({ transaction }) => transaction,
      reason: ({ reason }) => reason,
    },
  } satisfies Sheet<Payment>,
  subscriptions: {
    columns: {
      idHash: ({ idHash }: Subscriber) => idHash,
      status: ({ status }) => status,
      planId: ({ planId }) => planId,
      subscriber: ({ subscriber }) => subscriber,
      createdAt: ({ createdAt }) => isoTime(createdAt),
      paidThrough: ({ paidThrough }) => isoTime(paidThrough),
      cap: ({ allowance }) => allowance.cap,
      spent: ({ allowance }) => allowance.spent,
    },
  } satisfies Sheet<Subscriber>,
};

export function analyticsEndpoints(doors: Doors): Endpoint[] {
  const { analytics, readiness } = doors;
  const admission = admissionTo(doors, "read");
  const common = { method: "get", tag: "analytics", admission } as const;
  const csv = { ...common, mediaType: "text/csv", answers: { 200: z.string() } } as const;

  return [
    endpoint({
      ...common,
      path: "/analytics/overview",
      summary: "Volume, subscriptions, renewals and payments of a range of days, beside the range before.",
      query: z.object(figures),
      answers: { 200: overviewSchema },
      handle: async ({ query, caller: { provider } }) => ok(await analytics.overview(provider, rangeOf(query))),
    }),
    endpoint({
      ...common,
      path: "/analytics/volume",
      summary: "What was paid, by time and by how.",
      query: z.object({ ...figures, grain }),
      answers: { 200: volumeSchema },
      handle: async ({ query, caller: { provider } }) =>
        ok(await analytics.volume(provider, { ...rangeOf(query), grain: query.grain })),
    }),
    endpoint({
      ...csv,
      path: "/analytics/volume.csv",
      summary: "The same as CSV; amounts in base units.",
      query: z.object({ ...figures, grain }),
      async handle({ query, caller: { provider } }) {
        const { points } = await analytics.volume(provider, { ...rangeOf(query), grain: query.grain });
        return sheet("volume", toCsv(SHEETS.volume, points));
      },
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
      summary: "The same as CSV; amounts in base units.",
      query: z.object(figures),
      async handle({ query, caller: { provider } }) {
        const { plans } = await analytics.plans(provider, { ...rangeOf(query), limit: CSV_ROWS });
        return sheet("plans", toCsv(SHEETS.plans, plans));
      },
    }),
    endpoint({
      ...common,
      path: "/analytics/payers",
      summary: "Who paid most since the beginning.",
      query: z.object({ token: addressSchema.optional(), limit: limitSchema }),
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
      summary: `The same as CSV, at most ${CSV_ROWS} rows; header x-next tells the cursor of what follows.`,
      query: z.object({ ...paymentFilter, cursor }),
      async handle({ query, caller: { provider } }) {
        const { payments, next } = await analytics.payments(provider, { ...query, limit: CSV_ROWS });
        return sheet("payments", toCsv(SHEETS.payments, payments), next);
      },
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
      summary: `The same as CSV, at most ${CSV_ROWS} rows; header x-next tells the cursor of what follows.`,
      query: z.object({ ...subscriberFilter, cursor }),
      async handle({ query, caller: { provider } }) {
        const { subscriptions, next } = await analytics.subscribers(provider, { ...query, limit: CSV_ROWS });
        return sheet("subscriptions", toCsv(SHEETS.subscriptions, subscriptions), next);
      },
    }),
    endpoint({
      ...common,
      path: "/analytics/system",
      summary: "Health as /readyz tells it, always with status 200.",
      answers: { 200: readinessSchema },
      handle: async () => ok(readiness()),
    }),
  ];
}
