/** The client of discovery: reads the catalogue, and manages a provider's own listings. */
import type { Address } from "../protocol";
import { checkedCalls, DISCOVERY_ARGUMENTS } from "./checked-calls";
import {
  type CreateListingRequestWire,
  type Listing,
  listingListSchema,
  listingSchema,
  type ResourceList,
  type ResourceSearch,
  resourceListSchema,
  resourceSearchSchema,
} from "./discovery";
import {
  type CallOptions,
  createCalls,
  isDone,
  type LookUp,
  type Refused,
  read,
  refusal,
  type TransportOptions,
} from "./transport";
import { deletedSchema } from "./webhook-endpoints";

/** Which resources of the catalogue; each field narrows. */
export interface ResourceFilter {
  readonly payTo?: Address;
  readonly scheme?: string;
  /** CAIP-2 for entries of version 2; a version 1 name for those of version 1 */
  readonly network?: string;
  readonly x402Version?: 1 | 2;
  /** key of an extension that the resource has, e.g. "bazaar" */
  readonly extensions?: string;
  /** from 1 to 100; default 20 */
  readonly limit?: number;
}

/** What became of a new listing. */
export type ListingOutcome = { readonly kind: "created"; readonly listing: Listing } | Refused;

/** Reads the catalogue, and manages a provider's own listings. */
export type DiscoveryClient = ReturnType<typeof createDiscoveryClient>;

/**
 * Creates a client of the catalogue. Reading it needs no API key; the listings need one with the scope `listings`. Every
 * method throws Unavailable when there was no usable answer.
 * @throws ConfigError for a url that is no plain http(s) address
 */
export function createDiscoveryClient(options: TransportOptions) {
  const calls = createCalls(options);
  const methods = {
    /** The catalogue, a page at a time, in the order of creation. Ask the URL itself for its terms before paying. */
    resources({
      signal,
      ...query
    }: ResourceFilter & CallOptions & { readonly offset?: number } = {}): Promise<LookUp<ResourceList>> {
      return calls.lookUp("GET /discovery/resources", resourceListSchema, { query, signal });
    },

    /** Resources whose URL, description, name or tags have words of the query, the best matches first. */
    search(
      query: string,
      { signal, ...filter }: ResourceFilter & CallOptions & { readonly cursor?: string } = {},
    ): Promise<LookUp<ResourceSearch>> {
      return calls.lookUp("GET /discovery/search", resourceSearchSchema, { query: { query, ...filter }, signal });
    },

    /** Lists a route. Shown once its URL has answered 402 with a price that pays the provider. Safe to repeat. */
    async list(wanted: CreateListingRequestWire, { signal }: CallOptions = {}): Promise<ListingOutcome> {
      const answer = await calls.exchange("POST /discovery/listings", { body: wanted, signal });
      return isDone(answer) ? { kind: "created", listing: read(listingSchema, answer) } : refusal(answer);
    },

    /** The provider's own listings, with why one is not shown. */
    async listings({ signal }: CallOptions = {}): Promise<LookUp<readonly Listing[]>> {
      const found = await calls.lookUp("GET /discovery/listings", listingListSchema, { signal });
      return found.kind === "found" ? { kind: "found", value: found.value.listings } : found;
    },

    /** One of the provider's own listings. */
    listing(id: string, { signal }: CallOptions = {}): Promise<LookUp<Listing>> {
      return calls.lookUp("GET /discovery/listings/{id}", listingSchema, { params: { id }, signal });
    },

    /** Removes a listing. It is no longer shown once this has returned. */
    async unlist(id: string, { signal }: CallOptions = {}): Promise<LookUp<{ readonly deleted: true }>> {
      return calls.lookUp("DELETE /discovery/listings/{id}", deletedSchema, { params: { id }, signal });
    },
  };
  return checkedCalls(methods, DISCOVERY_ARGUMENTS);
}
