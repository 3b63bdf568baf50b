/** Discovery: the catalogue that stock `bazaar` clients read, and the listings of a provider. */
import {
  createListingRequestSchema,
  listingListSchema,
  listingSchema,
  resourceListSchema,
  resourceSearchSchema,
} from "turnpike/facilitator";
import { addressSchema } from "turnpike/protocol";
import { z } from "zod";
import { admissionTo } from "../admission";
import { type Endpoint, endpoint } from "../endpoint";
import type { ApiServices } from "../services";

const MAX_LIMIT = 100;

const DEFAULT_LIMIT = "20";

/** Stock clients ask for any number; a page has at most 100. */
const limitSchema = z
  .string()
  .regex(/^[1-9][0-9]{0,5}$/, "must be a whole number from 1")
  .default(DEFAULT_LIMIT)
  .transform((text) => Math.min(Number(text), MAX_LIMIT));

const offsetSchema = z
  .string()
  .regex(/^(?:0|[1-9][0-9]{0,5})$/, "must be a whole number below 1,000,000")
  .default("0")
  .transform(Number);

const filter = {
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

export function discoveryEndpoints(services: ApiServices): Endpoint[] {
  const { catalogue } = services;
  const { listings } = services.providers;
  const admission = admissionTo(services, "listings");
  const params = z.object({ id: z.string().regex(/^ls_[0-9a-f]{24}$/, "must be the id of a listing") });
  const tag = "discovery";
  return [
    endpoint({
      method: "get",
      path: "/discovery/resources",
      tag,
      summary: "Resources that providers list, with the prices of their last 402.",
      query: z.object({ ...filter, limit: limitSchema, offset: offsetSchema }),
      answers: { 200: resourceListSchema },
      async handle({ query: { limit, offset, ...wanted } }) {
        const { items, total } = await catalogue.page(wanted, { limit, offset });
        return { status: 200, body: { x402Version: 2 as const, items, pagination: { limit, offset, total } } };
      },
    }),
    endpoint({
      method: "get",
      path: "/discovery/search",
      tag,
      summary: "Listed resources that have words of a query.",
      query: z.object({ ...filter, query: z.string().min(1).max(256), limit: limitSchema, cursor: offsetSchema }),
      answers: { 200: resourceSearchSchema },
      async handle({ query: { query, limit, cursor: offset, ...wanted } }) {
        const { resources, hasMore } = await catalogue.search(query, wanted, { limit, offset });
        const pagination = { limit, cursor: hasMore ? String(offset + limit) : null };
        return { status: 200, body: { x402Version: 2 as const, resources, partialResults: hasMore, pagination } };
      },
    }),
    endpoint({
      method: "get",
      path: "/discovery/listings",
      tag,
      summary: "The provider's own listings, with why one is not shown.",
      admission,
      answers: { 200: listingListSchema },
      handle: async ({ caller }) => ({ status: 200, body: { listings: await listings.list(caller.provider) } }),
    }),
    endpoint({
      method: "post",
      path: "/discovery/listings",
      tag,
      summary: "List a route. It is shown once its URL has answered 402 with a price that pays the provider.",
      admission,
      body: createListingRequestSchema,
      answers: { 200: listingSchema, 201: listingSchema },
      async handle({ caller, body }) {
        const { listing, isNew } = await listings.create(caller, body);
        return isNew ? { status: 201, body: listing } : { status: 200, body: listing };
      },
    }),
    endpoint({
      method: "get",
      path: "/discovery/listings/{id}",
      tag,
      summary: "One listing of the provider.",
      admission,
      params,
      answers: { 200: listingSchema },
      handle: async ({ caller, params: { id } }) => ({ status: 200, body: await listings.get(caller.provider, id) }),
    }),
    endpoint({
      method: "delete",
      path: "/discovery/listings/{id}",
      tag,
      summary: "Remove a listing. It is no longer shown.",
      admission,
      params,
      answers: { 200: z.object({ deleted: z.literal(true) }) },
      async handle({ caller, params: { id } }) {
        await listings.remove(caller, id);
        return { status: 200, body: { deleted: true as const } };
      },
    }),
  ];
}
