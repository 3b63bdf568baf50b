/** A provider's payments, charges and subscribers: pages as JSON, whole lists as CSV. */
import type { ANALYTICS_ENDPOINTS, PaymentListWire, SubscriberListWire } from "turnpike/facilitator";
import type { Address } from "turnpike/protocol";
import type { Analytics } from "../../analytics";
import { type Handlers, ok } from "../endpoint";
import { CSV_PAGE, isoTime, money, sheetOfPages } from "../figures";

type Payment = PaymentListWire["payments"][number];

type Subscriber = SubscriberListWire["subscriptions"][number];

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

type ListId = "listPayments" | "listCharges" | "listSubscriptions";

export function listHandlers(
  analytics: Analytics,
): Pick<Handlers<typeof ANALYTICS_ENDPOINTS>, ListId | `${Exclude<ListId, "listCharges">}Csv`> {
  const unitOf = ({ token }: { readonly token: string }) => ({ token, decimals: analytics.decimalsOf(token) });

  return {
    listPayments: async ({ query, caller: { provider } }) => ok(await analytics.payments(provider, query)),
    listPaymentsCsv: ({ query: { cursor: from, ...filter }, caller: { provider } }) =>
      sheetOfPages("payments", { columns: PAYMENT_COLUMNS, unitOf }, paymentsAfter(analytics, provider, filter), from),
    listCharges: async ({ query, caller: { provider } }) => ok(await analytics.charges(provider, query)),
    listSubscriptions: async ({ query, caller: { provider } }) => ok(await analytics.subscribers(provider, query)),
    listSubscriptionsCsv: ({ query: { cursor: from, ...filter }, caller: { provider } }) =>
      sheetOfPages(
        "subscriptions",
        { columns: SUBSCRIBER_COLUMNS, unitOf },
        subscribersAfter(analytics, provider, filter),
        from,
      ),
  };
}

type Filter<Method extends "payments" | "subscribers"> = Omit<Parameters<Analytics[Method]>[1], "cursor" | "limit">;

const paymentsAfter =
  (analytics: Analytics, provider: Address, filter: Filter<"payments">) => async (cursor: string | undefined) => {
    const { payments, next } = await analytics.payments(provider, { ...filter, cursor, limit: CSV_PAGE });
    return { rows: payments, next };
  };

const subscribersAfter =
  (analytics: Analytics, provider: Address, filter: Filter<"subscribers">) => async (cursor: string | undefined) => {
    const page = await analytics.subscribers(provider, { ...filter, cursor, limit: CSV_PAGE });
    return { rows: page.subscriptions, next: page.next };
  };
