/** Endpoints of figures: of a provider, and of the whole service for its operator; and of the service itself. */
import * as z from "zod";
import { addressSchema, hash32Schema } from "../../protocol";
import { DAY_SEC } from "../../protocol/periods";
import {
  chargeListSchema,
  costsSchema,
  operatorOverviewSchema,
  overviewSchema,
  payerFiguresSchema,
  paymentListSchema,
  planFiguresSchema,
  providerFiguresSchema,
  subscriberListSchema,
  volumeSchema,
} from "../analytics";
import { attentionSchema } from "../attention";
import { funnelSchema } from "../reports";
import { healthSchema, readinessSchema, systemSchema, testClockSchema } from "../service";
import {
  allowanceListSchema,
  failedRenewalsSchema,
  latencySchema,
  recurringSchema,
  renewalFiguresSchema,
} from "../subscription-figures";
import { endpoints, limitSchema, networkQuerySchema, PAGED } from "./endpoint";
import { allOf, both, csv, json, ofGrain, ofRange, orderedBy, paged, RANGE, range, timeSchema } from "./figure-terms";

const paymentFilter = {
  status: z.enum(["pending", "settled", "failed"]).optional(),
  payer: addressSchema.optional(),
  /** origin and path of what was bought, or the path alone */
  route: z.string().max(2_048).optional(),
  /** accepted at this time or later, unix seconds */
  from: timeSchema.optional(),
  /** accepted before this time, unix seconds */
  to: timeSchema.optional(),
  sort: z.enum(["newest", "oldest"]).default("newest"),
};

const chargeFilter = { payer: addressSchema, token: addressSchema.optional() };

const subscriberFilter = { planId: hash32Schema.optional(), subscriber: addressSchema.optional() };

const PAYMENTS = {
  path: "/analytics/payments",
  text: "Lists one-time payments, by the time at which they were accepted.",
} as const;

const CHARGES = {
  path: "/analytics/charges",
  text: "Lists what one payer's subscriptions were charged in one token, newest first.",
} as const;

const SUBSCRIPTIONS = {
  path: "/analytics/subscriptions",
  text: "Lists subscriptions to the provider's plans with their allowances, newest first.",
} as const;

const ALLOWANCES = {
  path: "/analytics/allowances",
  text: "Lists the allowances of the provider's subscribers with the spent amounts, newest subscription first.",
} as const;

const PROVIDERS = {
  path: "/operator/providers",
  text: `Returns what each provider received, highest volume first. ${RANGE}`,
} as const;

/** Figures of a provider's payments, by day, plan and payer. */
export const ANALYTICS_ENDPOINTS = endpoints("analytics", {
  getOverview: json({
    path: "/analytics/overview",
    text: `Returns volume, subscriptions, renewals and payments, with those of the range before. ${RANGE}`,
    query: ofRange,
    answer: overviewSchema,
  }),
  ...both("getVolume", {
    path: "/analytics/volume",
    text: `Returns received amounts by hour or day and by scheme. ${RANGE}`,
    query: ofGrain,
    answer: volumeSchema,
  }),
  getPlanFigures: json({
    path: "/analytics/plans",
    text: `Returns each plan's price, active subscriptions and revenue, ordered by one of these figures. ${RANGE} ${PAGED}`,
    query: orderedBy(["revenue", "recurring", "active"], range),
    answer: planFiguresSchema,
  }),
  getPlanFiguresCsv: csv({
    path: "/analytics/plans",
    text: `Returns each plan's price, active subscriptions and revenue, in the order in which the plans were made. ${RANGE}`,
    query: ofRange,
  }),
  getPayers: json({
    path: "/analytics/payers",
    text: `Returns the totals of payers since the beginning, ordered by one of them, or those of one payer. ${PAGED}`,
    query: orderedBy(["paid", "refunds", "net", "payments"], {
      token: addressSchema.optional(),
      payer: addressSchema.optional(),
    }),
    answer: payerFiguresSchema,
  }),
  getPayersCsv: csv({
    path: "/analytics/payers",
    text: "Returns everyone who paid since the beginning, by address.",
    query: z.object({ token: addressSchema.optional() }),
  }),
  listPayments: paged(PAYMENTS, paymentFilter, paymentListSchema),
  listPaymentsCsv: csv({
    path: PAYMENTS.path,
    text: `${PAYMENTS.text} \`acceptedAt\` is the service's clock and \`settledAt\` the chain's: their difference is no duration.`,
    query: allOf(paymentFilter),
  }),
  listCharges: paged(CHARGES, chargeFilter, chargeListSchema),
  listSubscriptions: paged(SUBSCRIPTIONS, subscriberFilter, subscriberListSchema),
  listSubscriptionsCsv: csv({ ...SUBSCRIPTIONS, query: allOf(subscriberFilter) }),
  getAttention: json({
    path: "/analytics/attention",
    text: "Returns what a provider should look at now: renewals past due or at risk, failing webhook endpoints and payments that do not settle.",
    query: networkQuerySchema,
    answer: attentionSchema,
  }),
  getSystem: json({
    path: "/analytics/system",
    text: "Returns the checks of `/readyz`, always with status 200, for dashboards.",
    query: networkQuerySchema,
    answer: readinessSchema,
  }),
});

/** Figures of what gates report and of subscriptions. */
export const FIGURE_ENDPOINTS = endpoints("analytics", {
  ...both("getFunnel", {
    path: "/analytics/funnel",
    text: `Returns how many requests were asked to pay, paid and served, and the revenue lost by cause, as the provider's gates report them. ${RANGE}`,
    query: z.object({ ...range, resource: z.string().min(1).max(128).optional() }),
    answer: funnelSchema,
  }),
  ...both("getRenewals", {
    path: "/analytics/renewals",
    text: `Returns renewals by day, and the causes of failed attempts. ${RANGE}`,
    query: ofRange,
    answer: renewalFiguresSchema,
  }),
  ...both("getFailedRenewals", {
    path: "/analytics/failed-renewals",
    text: `Returns renewals that were not charged at once, by cause: lost, open or recovered. ${RANGE}`,
    query: ofRange,
    answer: failedRenewalsSchema,
  }),
  ...both("getRecurring", {
    path: "/analytics/recurring",
    text: `Returns the revenue that recurs in 30 days for each day, and the subscriptions that were lost. ${RANGE}`,
    query: ofRange,
    answer: recurringSchema,
  }),
  ...both("getLatency", {
    path: "/analytics/latency",
    text: `Returns percentiles of the time from acceptance to settlement, of the newest payments of the range. ${RANGE}`,
    query: ofRange,
    answer: latencySchema,
  }),
  listAllowances: paged(ALLOWANCES, subscriberFilter, allowanceListSchema),
  listAllowancesCsv: csv({ ...ALLOWANCES, query: allOf(subscriberFilter) }),
});

const ofAll = <const G extends Readonly<Record<string, object>>>(group: G) =>
  Object.fromEntries(
    Object.entries(group).map(([id, terms]) => [id, { ...terms, isForOperators: true, chain: "up" }]),
  ) as { readonly [K in keyof G]: G[K] & { readonly isForOperators: true; readonly chain: "up" } };

/** Figures of all providers together, for the wallets that operate the service. */
export const OPERATOR_ENDPOINTS = endpoints(
  "operator",
  ofAll({
    getOperatorSystem: {
      method: "get",
      path: "/operator/system",
      text: "Returns the chain's head, the lanes with their balances, the queues and the costs of the last day.",
      scope: "read",
      answers: { 200: systemSchema },
    } as const,
    getOperatorOverview: json({
      path: "/operator/overview",
      text: `Returns volume, subscriptions, renewals and payments of all providers, with those of the range before. ${RANGE}`,
      query: ofRange,
      answer: operatorOverviewSchema,
    }),
    ...both("getOperatorVolume", {
      path: "/operator/volume",
      text: `Returns what all providers received, by hour or day and by scheme. ${RANGE}`,
      query: ofGrain,
      answer: volumeSchema,
    }),
    getOperatorProviders: json({
      ...PROVIDERS,
      query: z.object({ ...range, limit: limitSchema }),
      answer: providerFiguresSchema,
    }),
    getOperatorProvidersCsv: csv({ ...PROVIDERS, query: ofRange }),
    ...both("getOperatorFunnel", {
      path: "/operator/funnel",
      text: `Returns the funnel over the gates of all providers. ${RANGE}`,
      query: ofRange,
      answer: funnelSchema,
    }),
    ...both("getOperatorRenewals", {
      path: "/operator/renewals",
      text: `Returns renewals of all providers by day, and the causes of failed attempts. ${RANGE}`,
      query: ofRange,
      answer: renewalFiguresSchema,
    }),
    ...both("getOperatorRecurring", {
      path: "/operator/recurring",
      text: `Returns the recurring revenue of all providers for each day. ${RANGE}`,
      query: ofRange,
      answer: recurringSchema,
    }),
    ...both("getOperatorCosts", {
      path: "/operator/costs",
      text: `Returns the costs of final transactions by purpose and by day, and per payment, renewal or debit. ${RANGE}`,
      query: ofRange,
      answer: costsSchema,
    }),
  }),
);

/** What the service says of itself: health, version and what it supports. */
export const SERVICE_ENDPOINTS = endpoints("service", {
  getTransactionCost: {
    method: "get",
    path: "/transactions/{hash}/cost",
    text: "Returns the gas cost of one of this Facilitator's transactions, also in token cents where the coin's price is set.",
    params: z.object({ hash: hash32Schema }),
    answers: {
      200: z.object({
        transaction: hash32Schema,
        purpose: z.string(),
        gasUsed: z.number().int(),
        gasPriceWei: z.string(),
        costWei: z.string(),
        costCents: z.number().optional(),
        payments: z.number().int(),
      }),
    },
    errors: ["UnknownObject"],
    objects: { hash: "transaction" },
  },
  getHealth: {
    method: "get",
    path: "/healthz",
    text: "Returns 200 while the process answers. It reads neither the chain nor the database.",
    answers: { 200: healthSchema },
    chain: "shared",
  },
  getReadiness: {
    method: "get",
    path: "/readyz",
    text: "Returns whether the service can settle now, with one check each for database, chain, indexer and lanes. 503 when a check fails.",
    query: networkQuerySchema,
    answers: { 200: readinessSchema, 503: readinessSchema },
    chain: "all",
  },
});

const MAX_ADVANCE_SEC = 366 * DAY_SEC;

/** Acts of the sandbox alone, such as moving its clock. */
export const SANDBOX_ENDPOINTS = endpoints("sandbox", {
  createSandboxSession: {
    method: "post",
    path: "/sandbox/session",
    text: "Returns the API key of the sandbox's provider, for the sandbox's own page on this machine. Exists in a sandbox only.",
    body: z.strictObject({}),
    answers: { 200: z.object({ key: z.string() }) },
    errors: ["AccessRefused"],
    chain: "up",
  },
  getSandboxClock: {
    method: "get",
    path: "/sandbox/clock",
    text: "Returns the chain's time, its target, and the next renewal. Exists in a sandbox only.",
    scope: "read",
    answers: { 200: testClockSchema },
    chain: "up",
  },
  moveSandboxClock: {
    method: "post",
    path: "/sandbox/clock",
    text: "Moves the chain's time forward; renewals and webhooks happen on the way. Exists in a sandbox only.",
    scope: "read",
    body: z.union([
      z.strictObject({ seconds: z.number().int().min(1).max(MAX_ADVANCE_SEC) }),
      z.strictObject({ to: z.literal("next-renewal") }),
    ]),
    answers: { 202: testClockSchema },
    chain: "up",
  },
});
