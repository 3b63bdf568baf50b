/** A provider's payments, charges and subscribers: pages as JSON, whole lists as CSV. */
import type { ANALYTICS_ENDPOINTS, ChargeListWire, PaymentListWire, SubscriberListWire } from "turnpike/facilitator";
import type { Address } from "turnpike/protocol";
import type { Analytics } from "../../analytics";
import { type Handlers, ok } from "../endpoint";
import { CSV_PAGE, isoTime, money, sheetOfPages } from "../figures";

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

type ListId = "listPayments" | "listCharges" | "listSubscriptions";

export function listHandlers(
  analytics: Analytics,
): Pick<Handlers<typeof ANALYTICS_ENDPOINTS>, ListId | `${ListId}Csv`> {
  const unitOf = ({ token }: { readonly token: string }) => ({ token, decimals: analytics.decimalsOf(token) });

  return {
    listPayments: async ({ query, caller: { provider } }) => ok(await analytics.payments(provider, query)),
    listPaymentsCsv: ({ query: { cursor: from, ...filter }, caller: { provider } }) =>
      sheetOfPages("payments", { columns: PAYMENT_COLUMNS, unitOf }, paymentsAfter(analytics, provider, filter), from),
    listCharges: async ({ query, caller: { provider } }) => ok(await analytics.charges(provider, query)),
    listChargesCsv: ({ query: { cursor: from, ...filter }, caller: { provider } }) =>
      sheetOfPages("charges", { columns: CHARGE_COLUMNS, unitOf }, chargesAfter(analytics, provider, filter), from),
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
