/** Endpoints of a provider: API keys, labels, events, automatic refunds, debits, reports of gates, webhooks, and listings of the catalogue. */
import * as z from "zod";
import { addressSchema, hash32Schema } from "../../protocol";
import {
  debitRightsRequestSchema,
  debitRightsResponseSchema,
  debitsRequestSchema,
  debitsResponseSchema,
} from "../debits";
import {
  createListingRequestSchema,
  listingListSchema,
  listingSchema,
  resourceListSchema,
  resourceSearchSchema,
} from "../discovery";
import {
  apiKeySchema,
  challengeRequestSchema,
  challengeSchema,
  createKeyRequestSchema,
  currentKeySchema,
  keyListSchema,
  newKeySchema,
  rotateKeyRequestSchema,
} from "../keys";
import { labelListSchema, labelRequestSchema, labelSchema } from "../labels";
import { pendingSchema } from "../payments";
import { nameRefundAccountSchema, refundAccountListSchema, refundAccountSchema } from "../refund-accounts";
import { refundResponseSchema } from "../refunds";
import { reportReceiptSchema, reportSchema } from "../reports";
import { eventListSchema } from "../service";
import {
  auditListSchema,
  createEndpointRequestSchema,
  DELIVERY_STATES,
  deletedSchema,
  deliveryDetailSchema,
  deliveryListSchema,
  endpointListSchema,
  newEndpointSchema,
  notedSchema,
  noteRequestSchema,
  rotatedSecretSchema,
  rotateSecretRequestSchema,
  updateEndpointRequestSchema,
  webhookEndpointSchema,
} from "../webhook-endpoints";
import { del, endpoints, get, limitSchema, PAGED, page, patch, post, REFUND_ERRORS } from "./endpoint";

const nothing = z.object({});

/** API keys of providers. */
export const KEY_ENDPOINTS = endpoints("keys", {
  createKeyChallenge: {
    ...post("/keys/challenge"),
    text: "Returns what the provider's wallet signs to get an API key: EIP-712 typed data and an EIP-4361 message. A challenge is valid once and for a short time.",
    body: challengeRequestSchema,
    answers: { 200: challengeSchema },
    chain: "shared",
  },
  createKey: {
    ...post("/keys"),
    text: "Creates an API key for the provider whose wallet signed the challenge. The answer is the only place that has the key: store it.",
    body: createKeyRequestSchema,
    answers: { 201: newKeySchema },
    errors: ["InvalidSignature"],
    chain: "shared",
  },
  listKeys: {
    ...get("/keys"),
    text: "Lists the provider's API keys with their scopes and times, without their secrets.",
    scope: "keys",
    answers: { 200: keyListSchema },
    chain: "shared",
  },
  getCurrentKey: {
    ...get("/keys/current"),
    text: "Returns the provider, the scopes and the expiry of the API key of this request.",
    scope: "any",
    answers: { 200: currentKeySchema },
    chain: "shared",
  },
  rotateKey: {
    ...post("/keys/rotate"),
    text: "Creates a successor of the API key of this request. The old key stays valid for `overlapSec`.",
    scope: "any",
    body: rotateKeyRequestSchema,
    answers: { 201: newKeySchema },
    chain: "shared",
  },
  revokeKey: {
    ...del("/keys/{id}"),
    text: "Revokes an API key for good. A key may revoke itself; revoking another one requires the scope `keys`.",
    scope: "any",
    params: z.object({ id: z.string().regex(/^[0-9a-f]{16}$/, "must be the id of an API key") }),
    answers: { 200: apiKeySchema },
    errors: ["ScopeMissing"],
    chain: "shared",
  },
  listAudit: {
    ...get("/audit"),
    text: `Lists administrative acts, newest first: key, act, subject, time and address. ${PAGED}`,
    scope: "keys",
    query: z.object(page),
    answers: { 200: auditListSchema },
    chain: "shared",
  },
  noteAct: {
    ...post("/audit"),
    text: "Adds an act of the provider's wallet to the audit log, as the dashboard does after a transaction or a signature. The service does not check it: the entry names the key that noted it.",
    scope: "webhooks",
    body: noteRequestSchema,
    answers: { 201: notedSchema },
    chain: "shared",
  },
});

/** What a provider calls its payers and plans. */
export const LABEL_ENDPOINTS = endpoints("labels", {
  listLabels: {
    ...get("/labels"),
    text: "Lists the provider's labels of payers and plans. Nobody else sees them.",
    scope: "read",
    answers: { 200: labelListSchema },
  },
  setLabel: {
    ...post("/labels"),
    text: "Gives a payer or one of the provider's plans a label, in place of a former one; an empty text removes it. A provider has 1,000 at most.",
    scope: "webhooks",
    body: labelRequestSchema,
    answers: { 200: labelSchema },
    errors: ["UnknownObject"],
  },
});

/** A number, or `chain-position` of each chain in digits and letters. */
const EVENT_CURSOR = /^(?:0|[1-9][0-9]{0,14}|[0-9a-z]{1,11}-[0-9a-z]{1,10}(?:_[0-9a-z]{1,11}-[0-9a-z]{1,10}){0,15})$/;

/** The feed of events. */
export const EVENT_ENDPOINTS = endpoints("events", {
  listEvents: {
    ...get("/events"),
    text: "Lists the provider's events after a cursor, in order. Store `next` and pass it later, also when nothing follows yet. A cursor before events that were deleted because of their age gets `EventsDeleted`, which names the cursor to continue with; events of that kind are never skipped silently.",
    scope: "read",
    query: z.object({
      cursor: z.string().regex(EVENT_CURSOR, "must be a cursor that an earlier page returned").default("0"),
      limit: limitSchema,
      type: z
        .string()
        .regex(/^[a-z_]{1,32}\.[a-z_]{1,32}$/, "must be an event type such as payment.settled")
        .optional(),
      subject: hash32Schema.optional(),
      /** of several chains, the one whose events are read */
      network: z.string().max(64).optional(),
    }),
    answers: { 200: eventListSchema },
    errors: ["EventsDeleted"],
    chain: "shared",
  },
});

/** Automatic refunds, and the accounts that they are paid from. */
export const REFUND_ACCOUNT_ENDPOINTS = endpoints("payments", {
  refundPayment: {
    ...post("/payments/{id}/refund"),
    text: "Refunds a whole payment from the account that its payee has named at `POST /refund-accounts`, within the daily cap. The payee is the provider of the API key. A payment is refunded automatically once, however often it is requested. `RateLimited` with the reason `refund_cap` means that the refunds of 24 hours would pass the cap. Send the request again after a 202 or a lost answer.",
    scope: "refunds",
    params: z.object({ id: hash32Schema }),
    body: z.strictObject({}),
    answers: { 200: refundResponseSchema, 202: pendingSchema },
    errors: REFUND_ERRORS,
    objects: { id: "payment" },
  },
  nameRefundAccount: {
    ...post("/refund-accounts"),
    text: "Names the account that the automatic refunds of a provider's payments in one token are paid from, and the most that they take within 24 hours. The provider's signature alone authorizes it, and this Facilitator must have the account's key for this provider. A statement replaces those of lower versions.",
    body: nameRefundAccountSchema,
    answers: { 200: refundAccountSchema },
    errors: ["InvalidSignature", "PaymentNotAllowed", "PayloadConflict"],
  },
  listRefundAccounts: {
    ...get("/refund-accounts"),
    text: "Returns the account whose key this Facilitator has for the provider, the statements that count, and what is used of each cap.",
    scope: "read",
    answers: { 200: refundAccountListSchema },
  },
  revokeRefundAccount: {
    ...del("/refund-accounts/{token}"),
    text: "Ends automatic refunds of the provider's payments in a token at once. Refunds that were accepted are still settled. Only a statement with a higher version resumes them.",
    scope: "refunds",
    params: z.object({ token: addressSchema }),
    answers: { 200: refundAccountSchema },
    errors: ["UnknownObject"],
    objects: { token: "token" },
  },
});

/** Debits that are sent for providers. */
export const DEBIT_ENDPOINTS = endpoints("debits", {
  createDebits: {
    ...post("/debits"),
    text: "Debits allowances of the provider's subscribers, each item with an outcome of its own. An idHash and index is debited once, so a repetition is safe.",
    scope: "debits",
    body: debitsRequestSchema,
    answers: { 200: debitsResponseSchema, 202: debitsResponseSchema },
  },
  getDebitRights: {
    ...post("/debits/rights"),
    text: "Returns which plans the provider may debit through this Facilitator, and the accounts that must be operators of the others.",
    scope: "debits",
    body: debitRightsRequestSchema,
    answers: { 200: debitRightsResponseSchema },
  },
});

/** Reports of what gates have counted. */
export const REPORT_ENDPOINTS = endpoints("analytics", {
  createReport: {
    ...post("/reports"),
    text: "Stores a gate's counts of one hour: requests that were asked to pay, refused, paid and served. An id counts once, so a repetition is safe.",
    scope: "reports",
    body: reportSchema,
    answers: { 200: reportReceiptSchema },
    errors: ["PayloadConflict"],
  },
});

const endpointIdSchema = z.string().regex(/^we_[0-9a-f]{24}$/, "must be the id of a webhook endpoint");

const ofEndpoint = z.object({ id: endpointIdSchema });

const ofEvent = z.object({ id: endpointIdSchema, eventId: hash32Schema });

const queuedSchema = z.object({
  /** the id of its delivery */
  eventId: hash32Schema,
  state: z.literal("pending"),
});

/** Endpoints of webhooks, and their deliveries. */
export const WEBHOOK_ENDPOINTS = endpoints("webhooks", {
  listWebhookEndpoints: {
    ...get("/webhook-endpoints"),
    text: "Lists the provider's webhook endpoints, without their secrets.",
    scope: "webhooks",
    answers: { 200: endpointListSchema },
    chain: "shared",
  },
  createWebhookEndpoint: {
    ...post("/webhook-endpoints"),
    text: "Creates a webhook endpoint. The answer is the only place that has its signing secret: store it.",
    scope: "webhooks",
    body: createEndpointRequestSchema,
    answers: { 201: newEndpointSchema },
    chain: "shared",
  },
  getWebhookEndpoint: {
    ...get("/webhook-endpoints/{id}"),
    text: "Returns one webhook endpoint with its state and event types.",
    scope: "webhooks",
    params: ofEndpoint,
    answers: { 200: webhookEndpointSchema },
    chain: "shared",
  },
  updateWebhookEndpoint: {
    ...patch("/webhook-endpoints/{id}"),
    text: "Changes the given fields. Disabling an endpoint drops its waiting deliveries; enabling it starts with the next event.",
    scope: "webhooks",
    params: ofEndpoint,
    body: updateEndpointRequestSchema,
    answers: { 200: webhookEndpointSchema },
    chain: "shared",
  },
  deleteWebhookEndpoint: {
    ...del("/webhook-endpoints/{id}"),
    text: "Deletes a webhook endpoint and its deliveries.",
    scope: "webhooks",
    params: ofEndpoint,
    answers: { 200: deletedSchema },
    chain: "shared",
  },
  rotateWebhookSecret: {
    ...post("/webhook-endpoints/{id}/rotate-secret"),
    text: "Creates a new signing secret. For `overlapSec` deliveries carry signatures of the one before too.",
    scope: "webhooks",
    params: ofEndpoint,
    body: rotateSecretRequestSchema,
    answers: { 200: rotatedSecretSchema },
    chain: "shared",
  },
  listDeliveries: {
    ...get("/webhook-endpoints/{id}/deliveries"),
    text: `Lists an endpoint's deliveries, newest first. ${PAGED}`,
    scope: "webhooks",
    params: ofEndpoint,
    query: z.object({ state: z.enum(DELIVERY_STATES).optional(), ...page }),
    answers: { 200: deliveryListSchema },
    chain: "shared",
  },
  getDelivery: {
    ...get("/webhook-endpoints/{id}/deliveries/{eventId}"),
    text: "Returns one delivery with all its attempts.",
    scope: "webhooks",
    params: ofEvent,
    answers: { 200: deliveryDetailSchema },
    chain: "shared",
  },
  resendDelivery: {
    ...post("/webhook-endpoints/{id}/deliveries/{eventId}/resend"),
    text: "Queues an event of the provider for the endpoint again, or for the first time. Its id stays the same.",
    scope: "webhooks",
    params: ofEvent,
    body: nothing,
    answers: { 202: queuedSchema },
    chain: "shared",
  },
  testWebhookEndpoint: {
    ...post("/webhook-endpoints/{id}/test"),
    text: "Queues an event of the type `webhook.test` for the endpoint.",
    scope: "webhooks",
    params: ofEndpoint,
    body: nothing,
    answers: { 202: queuedSchema },
    chain: "shared",
  },
});

const MAX_RESOURCES = 100;

/** Stock clients ask for any number; a page has at most 100. */
const resourcesSchema = z
  .string()
  .regex(/^[1-9][0-9]{0,5}$/, "must be a whole number from 1")
  .default("20")
  .transform((text) => Math.min(Number(text), MAX_RESOURCES));

const offsetSchema = z
  .string()
  .regex(/^(?:0|[1-9][0-9]{0,5})$/, "must be a whole number below 1,000,000")
  .default("0")
  .transform(Number);

const resourceFilter = {
  /** other than `http`, nothing matches */
  type: z.string().max(32).optional(),
  payTo: addressSchema.optional(),
  scheme: z.string().max(32).optional(),
  /** `eip155:<chainId>` for version 2, a name for version 1 */
  network: z.string().max(64).optional(),
  extensions: z.string().max(64).optional(),
  x402Version: z
    .enum(["1", "2"])
    .transform((text): 1 | 2 => (text === "1" ? 1 : 2))
    .optional(),
};

const ofListing = {
  params: z.object({ id: z.string().regex(/^ls_[0-9a-f]{24}$/, "must be the id of a listing") }),
  objects: { id: "listing" },
} as const;

/** The list of paid routes. */
export const DISCOVERY_ENDPOINTS = endpoints("discovery", {
  listResources: {
    ...get("/discovery/resources"),
    text: "Lists the resources that providers put here, in the shape that stock `bazaar` clients of x402 versions 1 and 2 read. A resource for both versions is two items. Prices come from the URL's own 402 at `lastUpdated`; text comes from the provider, so escape it.",
    query: z.object({ ...resourceFilter, limit: resourcesSchema, offset: offsetSchema }),
    answers: { 200: resourceListSchema },
    chain: "all",
  },
  searchResources: {
    ...get("/discovery/search"),
    text: "Searches URL, description, name and tags of the listed resources for the words of `query`, best matches first. Pass `pagination.cursor` as `cursor` for the following page.",
    query: z.object({
      ...resourceFilter,
      query: z.string().min(1).max(256),
      limit: resourcesSchema,
      cursor: offsetSchema,
    }),
    answers: { 200: resourceSearchSchema },
    chain: "all",
  },
  listListings: {
    ...get("/discovery/listings"),
    text: "Lists the provider's own listings with their state. `problem` states why the last check of a hidden one failed.",
    scope: "listings",
    answers: { 200: listingListSchema },
  },
  createListing: {
    ...post("/discovery/listings"),
    text: "Lists a route template, without query values. This service asks the URL for its 402, and shows the listing once every payee on this network is the provider's own. The same method and URL keeps its id and is checked again (200).",
    scope: "listings",
    body: createListingRequestSchema,
    answers: { 200: listingSchema, 201: listingSchema },
  },
  getListing: {
    ...ofListing,
    ...get("/discovery/listings/{id}"),
    text: "Returns one listing of the provider with its state.",
    scope: "listings",
    answers: { 200: listingSchema },
  },
  deleteListing: {
    ...ofListing,
    ...del("/discovery/listings/{id}"),
    text: "Removes a listing of the provider from the catalogue.",
    scope: "listings",
    answers: { 200: deletedSchema },
  },
});
