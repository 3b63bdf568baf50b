/** Endpoints to find and read a provider's records: search, the story of one, and the ledger of all movements. */
import * as z from "zod";
import { addressSchema, hash32Schema } from "../../protocol";
import { MOVEMENT_KINDS } from "../digest";
import { chargeStorySchema, ledgerSchema, paymentStorySchema, searchSchema } from "../records";
import { endpoints, get, limitSchema, PAGED } from "./endpoint";

const byId = z.object({ id: hash32Schema });

const movementFilter = {
  /** a calendar month; absent: all times */
  month: z
    .string()
    .regex(/^20[0-9]{2}-(?:0[1-9]|1[0-2])$/, "must be a month such as 2026-11")
    .optional(),
  /** IANA name of the time zone that the month is in */
  zone: z.string().max(64).default("UTC"),
  token: addressSchema.optional(),
  kind: z.enum(MOVEMENT_KINDS).optional(),
  planId: hash32Schema.optional(),
  /** origin and path of what was bought, or the path alone */
  route: z.string().max(2_048).optional(),
  payer: addressSchema.optional(),
};

/** by amount: of one token, which `token` names, or the first */
const sort = z.enum(["newest", "oldest", "largest", "smallest"]).default("newest");

const MOVEMENTS =
  "every movement of the provider's money: payments, signups, renewals, debits, changes and refunds, of every token";

const cursor = z.string().max(160).optional();

/** Records of a provider. */
export const RECORD_ENDPOINTS = endpoints("analytics", {
  search: {
    ...get("/search"),
    text: "Finds the provider's payments by id, memo or transaction, its charges by id or transaction, subscriptions, payers and plans by id, plans also by the start of their name, payers and plans by their label, and webhook endpoints by the start of their description. The first six digits of an id suffice, but of a charge's.",
    scope: "read",
    query: z.object({ q: z.string().trim().min(1).max(256) }),
    answers: { 200: searchSchema },
  },
  getPaymentStory: {
    ...get("/analytics/payments/{id}"),
    text: "Returns all that is known of a payment to the provider: request, authorization, transaction, refunds in any state, deliveries, and why it failed.",
    scope: "read",
    params: byId,
    answers: { 200: paymentStorySchema },
    errors: ["UnknownObject"],
    objects: { id: "payment" },
  },
  getChargeStory: {
    ...get("/analytics/charges/{id}"),
    text: "Returns all that is known of one charge or debit of a subscription, by the id of its event.",
    scope: "read",
    params: byId,
    answers: { 200: chargeStorySchema },
    errors: ["UnknownObject"],
  },
  getLedger: {
    ...get("/analytics/ledger"),
    text: `Lists ${MOVEMENTS}, with totals of all that the filter lets through. ${PAGED}`,
    scope: "read",
    query: z.object({ ...movementFilter, sort, cursor, limit: limitSchema }),
    answers: { 200: ledgerSchema },
  },
  getLedgerCsv: {
    ...get("/analytics/ledger.csv"),
    text: `Lists ${MOVEMENTS}. As CSV, of any length; amounts are decimals.`,
    scope: "read",
    query: z.object({ ...movementFilter, sort: z.enum(["newest", "oldest"]).default("oldest") }),
    mediaType: "text/csv",
    answers: { 200: z.string() },
  },
});
