/** Discovery: the catalogue that stock `bazaar` clients read, and the listings of a provider. */
import { DISCOVERY_ENDPOINTS } from "turnpike/facilitator";
import { type Endpoint, ok, routes } from "../endpoint";
import type { ApiServices } from "../services";

export function discoveryEndpoints(services: ApiServices): Endpoint[] {
  const { catalogue } = services;
  const { listings } = services.providers;
  return routes(services, DISCOVERY_ENDPOINTS, {
    async listResources({ query: { limit, offset, ...wanted } }) {
      const { items, total } = await catalogue.page(wanted, { limit, offset });
      return ok({ x402Version: 2 as const, items, pagination: { limit, offset, total } });
    },
    async searchResources({ query: { query, limit, cursor: offset, ...wanted } }) {
      const { resources, hasMore } = await catalogue.search(query, wanted, { limit, offset });
      const pagination = { limit, cursor: hasMore ? String(offset + limit) : null };
      return ok({ x402Version: 2 as const, resources, partialResults: hasMore, pagination });
    },
    listListings: async ({ caller }) => ok({ listings: await listings.list(caller.provider) }),
    async createListing({ caller, body }) {
      const { listing, isNew } = await listings.create(caller, body);
      return isNew ? { status: 201, body: listing } : { status: 200, body: listing };
    },
    getListing: async ({ caller, params: { id } }) => ok(await listings.get(caller.provider, id)),
    async deleteListing({ caller, params: { id } }) {
      await listings.remove(caller, id);
      return ok({ deleted: true as const });
    },
  });
}
