/** Endpoints of a payer: what the wallet of an API key was charged, by every provider at this Facilitator. */
import { chargedListSchema, paidListSchema, spendSchema } from "../spending";
import { endpoints } from "./endpoint";
import { allOf, both, csv, ofRange, paged, RANGE } from "./figure-terms";

const PAYMENTS = {
  path: "/payer/payments",
  text: "Lists the settled one-time payments of the API key's own wallet, newest first.",
} as const;

const CHARGES = {
  path: "/payer/charges",
  text: "Lists what the subscriptions of the API key's own wallet were charged, newest first.",
} as const;

/** What a wallet was charged. */
export const PAYER_ENDPOINTS = endpoints("accounts", {
  listPaid: paged(PAYMENTS, {}, paidListSchema),
  listPaidCsv: csv({ ...PAYMENTS, query: allOf({}) }),
  listCharged: paged(CHARGES, {}, chargedListSchema),
  listChargedCsv: csv({ ...CHARGES, query: allOf({}) }),
  ...both("getSpend", {
    path: "/payer/spend",
    text: `Returns what the API key's own wallet paid in one token, by provider and day. ${RANGE}`,
    query: ofRange,
    answer: spendSchema,
  }),
});
