import * as z from "zod";
import { addressSchema, hash32Schema } from "../protocol";
import { DAY_SEC } from "../protocol/periods";
import { WEBHOOK_EVENT_TYPES } from "./webhook-events";

const unixSec = z.number().int().nonnegative();

const typesSchema = z
  .array(z.enum(WEBHOOK_EVENT_TYPES as [string, ...string[]]))
  .min(1)
  .max(WEBHOOK_EVENT_TYPES.length)
  .refine((types) => new Set(types).size === types.length, "must not name a type twice");

const descriptionSchema = z.string().max(256);

const urlSchema = z.string().min(8).max(2_048);

export const createEndpointRequestSchema = z.strictObject({
  /** https; no credentials in it, no private address behind it */
  url: urlSchema,
  /** absent: every type but `digest.daily`, also those of later versions */
  types: typesSchema.optional(),
  description: descriptionSchema.default(""),
});

export type CreateEndpointRequest = z.output<typeof createEndpointRequestSchema>;

export type CreateEndpointRequestWire = z.input<typeof createEndpointRequestSchema>;

export const updateEndpointRequestSchema = z
  .strictObject({
    url: urlSchema.optional(),
    /** null: every type */
    types: typesSchema.nullish(),
    description: descriptionSchema.optional(),
    enabled: z.boolean().optional(),
  })
  .refine((change) => Object.values(change).some((value) => value !== undefined), "must change something");

export type UpdateEndpointRequest = z.output<typeof updateEndpointRequestSchema>;

export const webhookEndpointSchema = z.object({
  id: z.string().max(64),
  url: urlSchema,
  types: z.array(z.string()).nullable(),
  description: z.string(),
  status: z.enum(["enabled", "disabled"]),
  /** why it is disabled: by its owner, or because the receiver answered 410 */
  disabledReason: z.enum(["owner", "gone", "operator"]).optional(),
  /** attempts that failed since the last that did not */
  failures: z.number().int().nonnegative(),
  createdAt: unixSec,
});

export type WebhookEndpoint = z.output<typeof webhookEndpointSchema>;

/** The only answers that contain secrets. */
export const newEndpointSchema = webhookEndpointSchema.extend({ secret: z.string() });

export const endpointListSchema = z.object({ endpoints: z.array(webhookEndpointSchema) });

/** Answers a DELETE. */
export const deletedSchema = z.object({ deleted: z.literal(true) });

export const rotateSecretRequestSchema = z.strictObject({
  /** seconds for which the old secret signs beside the new one; at most 7 days */
  overlapSec: z
    .number()
    .int()
    .min(0)
    .max(7 * DAY_SEC)
    .default(DAY_SEC),
});

export const rotatedSecretSchema = z.object({
  secret: z.string(),
  /** until then deliveries are signed with both, unix seconds */
  previousExpiresAt: unixSec,
});

/** `dropped`: the endpoint was disabled while it waited. */
export const DELIVERY_STATES = ["pending", "delivered", "failed", "dropped"] as const;

export const deliverySchema = z.object({
  eventId: hash32Schema,
  type: z.string(),
  /** what its event is about, such as a payment's id; absent for a test, and where the event was deleted */
  subject: z.string().optional(),
  state: z.enum(DELIVERY_STATES),
  attempts: z.number().int().nonnegative(),
  createdAt: unixSec,
  /** while it is pending, unix seconds */
  nextAttemptAt: unixSec.optional(),
  finishedAt: unixSec.optional(),
});

export const deliveryListSchema = z.object({ deliveries: z.array(deliverySchema), next: z.string().optional() });

/** What went wrong without an HTTP status. `address`: the name leads to an address that is not public. */
export const DELIVERY_ERRORS = ["timeout", "address", "dns", "connection", "tls", "protocol"] as const;

export const attemptSchema = z.object({
  /** from 1 */
  number: z.number().int().positive(),
  /** unix seconds */
  at: unixSec,
  durationMs: z.number().int().nonnegative(),
  /** of the receiver's answer; bodies are neither kept nor shown */
  statusCode: z.number().int().optional(),
  error: z.enum(DELIVERY_ERRORS).optional(),
});

export const deliveryDetailSchema = deliverySchema.extend({
  log: z.array(attemptSchema),
  /** what is sent, the same at every attempt; absent where its event was deleted because of its age */
  body: z.string().optional(),
});

export const auditEntrySchema = z.object({
  /** unix seconds */
  at: unixSec,
  /** id of the API key, `wallet`, or `service` */
  actor: z.string(),
  /** e.g. key.created, webhook.secret_rotated */
  act: z.string(),
  object: z.string(),
  /** from where, as the service saw it; empty for the service itself */
  address: z.string(),
  requestId: z.string().optional(),
  details: z.record(z.string(), z.unknown()),
});

/** Acts of a provider's wallet that no other request shows to the Facilitator. */
export const NOTED_ACTS = [
  "plan.created",
  "plan.deprecated",
  "plan.stopped",
  "plan.payee",
  "plan.rights",
  "subscription.ended",
  "refund.signed",
  "voucher.signed",
] as const;

export const noteRequestSchema = z.strictObject({
  act: z.enum(NOTED_ACTS),
  /** what it was about: an id, a hash or an address */
  object: z.string().regex(/^[\x21-\x7e]{1,128}$/, "must be an id"),
  transaction: hash32Schema.optional(),
});

export type NoteRequest = z.output<typeof noteRequestSchema>;

export const notedSchema = z.object({ noted: z.literal(true) });

export const auditListSchema = z.object({
  provider: addressSchema,
  entries: z.array(auditEntrySchema),
  next: z.string().optional(),
});
