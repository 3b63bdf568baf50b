import {
  type ChargeListWire,
  chargeListSchema,
  type PaymentListWire,
  paymentListSchema,
  type SubscriberListWire,
  subscriberListSchema,
} from "turnpike/facilitator";
import { type Address, addressSchema, hash32Schema } from "turnpike/protocol";
import { z } from "zod";
import type { Analytics } from "../../analytics";
import { admissionTo } from "../admission";
import { type Endpoint, endpoint } from "../endpoint";
import { CSV_PAGE, csvSchema, isoTime, money, ok, sheetOfPages } from "../figures";
import { limitSchema } from "../page";
import type { ApiServices } from "../services";

const cursor = z.string().max(128).optional();

const paymentFilter = {
  status: z.enum(["pending", "settled", "failed"]).optional(),
  payer: addressSchema.optional(),
};

const chargeFilter = { payer: addressSchema, token: addressSchema.optional() };

const subscriberFilter = { planId: hash32Schema.optional(), subscriber: addressSchema.optional() };

type Payment = PaymentListWire["payments"][number];

type Subscriber = SubscriberListWire["subscriptions"][number];

type Charge = ChargeListWire["charges"][number];

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
  refunded: money(({ refunded }: Payment) => refunded ?? "0"),
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
  ending: ({ ending }: Subscriber) => ending,
  until: ({ until }: Subscriber) => until && isoTime(until),
  nextPlanId: ({ nextPlanId }: Subscriber) => nextPlanId,
  intro: ({ intro }: Subscriber) => intro,
};

const CHARGE_COLUMNS = {
  at: ({ at }: Charge) => isoTime(at),
  scheme: ({ scheme }: Charge) => scheme,
  amount: money(({ amount }: Charge) => amount),
  subject: ({ subject }: Charge) => subject,
  transaction: ({ transaction }: Charge) => transaction,
  refunded: money(({ refunded }: Charge) => refunded ?? "0"),
};

export function analyticsListEndpoints(services: ApiServices): Endpoint[] {
  const { analytics } = services;
  const admission = admissionTo(services, "read");
  const common = { method: "get", tag: "analytics", admission } as const;
  const csv = { ...common, mediaType: "text/csv", answers: { 200: csvSchema } } as const;
  const unitOf = ({ token }: { readonly token: string }) => ({ token, decimals: analytics.decimalsOf(token) });

  return [
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
          paymentsAfter(analytics, provider, filter),
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
        sheetOfPages("charges", { columns: CHARGE_COLUMNS, unitOf }, chargesAfter(analytics, provider, filter), from),
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
          subscribersAfter(analytics, provider, filter),
          from,
        ),
    }),
  ];
}

type Filter<Method extends "payments" | "charges" | "subscribers"> = Omit<
  Parameters<Analytics[Method]>[1],
  "cursor" | "limit"
>;

const paymentsAfter =
  (analytics: Analytics, provider: Address, filter: Filter<"payments">) => async (cursor: string | undefined) => {
    const { payments, next } = await analytics.payments(provider, { ...filter, cursor, limit: CSV_PAGE });
    return { rows: payments, next };
  };

const chargesAfter =
  (analytics: Analytics, provider: Address, filter: Filter<"charges">) => async (cursor: string | undefined) => {
    const { charges, next } = await analytics.charges(provider, { ...filter, cursor, limit: CSV_PAGE });
    return { rows: charges, next };
  };

const subscribersAfter =
  (analytics: Analytics, provider: Address, filter: Filter<"subscribers">) => async (cursor: string | undefined) => {
    const page = await analytics.subscribers(provider, { ...filter, cursor, limit: CSV_PAGE });
    return { rows: page.subscriptions, next: page.next };
  };
