/** Wire bodies of discovery: what providers list, in the shape that stock `bazaar` clients read. */
import * as z from "zod";
import { DELIVERY_ERRORS } from "./webhook-endpoints";

/** Methods that a listing may have. The Facilitator itself sends a request with it, without a body. */
export const LISTING_METHODS = ["GET", "POST"] as const;

/**
 * Why a listing is not shown. The connection failed (as for webhooks); the answer redirects, is not 402, is too large or
 * is malformed; it has no price that this Facilitator settles, or pays somebody else; or the provider has no API key.
 */
export const LISTING_PROBLEMS = [
  ...DELIVERY_ERRORS,
  ...(["redirect", "status", "too_large", "malformed", "no_price", "payee", "no_key"] as const),
] as const;

const unixSec = z.number().int().nonnegative();

export const createListingRequestSchema = z.object({
  /** https://host/path; a segment of the path may be `{name}`. No query, no credentials. */
  url: z.string().min(8).max(1_024),
  method: z.enum(LISTING_METHODS).default("GET"),
  /** for each `{name}` a value with which the URL answers 402; shown to nobody else */
  sample: z
    .record(
      z.string().regex(/^[A-Za-z][A-Za-z0-9_]{0,31}$/, "must be the name of a segment"),
      z.string().regex(/^(?!\.{1,2}$)[A-Za-z0-9._~-]{1,64}$/, "must be 1 to 64 letters, digits, or . _ ~ -"),
    )
    .default({}),
});

/** A listing to create. */
export type CreateListingRequest = z.output<typeof createListingRequestSchema>;

export type CreateListingRequestWire = z.input<typeof createListingRequestSchema>;

export const listingSchema = z.object({
  id: z.string().max(64),
  url: z.string(),
  method: z.enum(LISTING_METHODS),
  sample: z.record(z.string(), z.string()),
  /** `pending`: not checked yet; `hidden`: its last check failed, see `problem` */
  state: z.enum(["pending", "listed", "hidden"]),
  problem: z.enum(LISTING_PROBLEMS).optional(),
  createdAt: unixSec,
  /** when its URL was last asked */
  checkedAt: unixSec.optional(),
  nextCheckAt: unixSec,
});

/** A provider's own listing. */
export type Listing = z.output<typeof listingSchema>;

export const listingListSchema = z.object({ listings: z.array(listingSchema) });

/** An entry of `accepts`, with the fields of the item's version. */
const acceptSchema = z.looseObject({
  scheme: z.string(),
  network: z.string(),
  asset: z.string(),
  payTo: z.string(),
  maxTimeoutSeconds: z.number(),
});

/** Text comes from the provider's own 402: escape it where you show it. */
export const discoveredResourceSchema = z.object({
  /** the URL; a segment of its path may be `{name}` */
  resource: z.string(),
  type: z.literal("http"),
  /** which generation of clients the entries are for */
  x402Version: z.literal([1, 2]),
  accepts: z.array(acceptSchema),
  /** when the Facilitator last got this 402 from the URL, ISO 8601 */
  lastUpdated: z.string(),
  description: z.string().optional(),
  mimeType: z.string().optional(),
  serviceName: z.string().optional(),
  tags: z.array(z.string()).optional(),
  extensions: z.record(z.string(), z.unknown()).optional(),
});

/** A resource of the catalogue, for one version of x402. */
export type DiscoveredResource = z.output<typeof discoveredResourceSchema>;

export const resourceListSchema = z.object({
  x402Version: z.literal(2),
  items: z.array(discoveredResourceSchema),
  pagination: z.object({ limit: z.number().int(), offset: z.number().int(), total: z.number().int() }),
});

export type ResourceList = z.output<typeof resourceListSchema>;

export const resourceSearchSchema = z.object({
  x402Version: z.literal(2),
  resources: z.array(discoveredResourceSchema),
  partialResults: z.boolean(),
  pagination: z.object({ limit: z.number().int(), cursor: z.string().nullable() }),
});

export type ResourceSearch = z.output<typeof resourceSearchSchema>;
