/** Reads the catalogue: listings whose last check succeeded, as stock clients of either version of x402 read them. */
import { type Expression, type SqlBool, sql } from "kysely";
import type { DiscoveredResource } from "turnpike/facilitator";
import { type Address, caip2Of, findNetwork, type Network } from "turnpike/protocol";
import type { Store } from "../db/open";
import { onChains } from "../db/owner";
import type { ListingPrice, ListingTerms } from "../db/tables/discovery";
import type { ListingRow } from "./listings";
import { stockTemplateOf } from "./template";

export interface CatalogueFilter {
  readonly type?: string | undefined;
  readonly payTo?: Address | undefined;
  readonly scheme?: string | undefined;
  readonly network?: string | undefined;
  readonly extensions?: string | undefined;
  readonly x402Version?: 1 | 2 | undefined;
}

export interface CataloguePage {
  readonly offset: number;
  readonly limit: number;
}

export interface CatalogueDeps {
  readonly store: Store;
  readonly network: Network;
  /** unix milliseconds */
  readonly nowMs: () => number;
}

type Item = Pick<ListingRow, "url" | "method"> & { terms: ListingTerms; listed_at_ms: number; version: 1 | 2 };

const MAX_WORDS = 8;

export class Catalogue {
  readonly #deps: CatalogueDeps;

  constructor(deps: CatalogueDeps) {
    this.#deps = deps;
  }

  /** Returns a page in the order of creation. A resource for both versions is two items, version 2 first. */
  async page(filter: CatalogueFilter, { offset, limit }: CataloguePage) {
    const versions = this.#versionsOf(filter);
    if (versions.length === 0) return { items: [], total: 0 };
    const rows = await this.#matching(filter, versions)
      .select(["url", "method", "terms", "listed_at_ms", "version"])
      .orderBy("seq")
      .orderBy("version", "desc")
      .limit(limit)
      .offset(offset)
      .execute();
    const { total } = await this.#matching(filter, versions)
      .select(({ fn }) => fn.countAll().as("total"))
      .executeTakeFirstOrThrow();
    return { items: rows.map((row) => this.#itemOf(row as Item)), total: Number(total) };
  }

  /** Returns the resources that have words of the query, those with the most first. */
  async search(query: string, filter: CatalogueFilter, { offset, limit }: CataloguePage) {
    const words = [...new Set(query.toLowerCase().match(/[\p{L}\p{N}_-]{2,64}/gu) ?? [])].slice(0, MAX_WORDS);
    const versions = this.#versionsOf(filter);
    if (versions.length === 0 || words.length === 0) return { resources: [], hasMore: false };
    const hits = sql<number>`(${sql.join(
      words.map((word) => sql`(position(${word}::text in search_text) > 0)::int`),
      sql` + `,
    )})`;
    const rows = await this.#matching(filter, versions)
      .select(["url", "method", "terms", "listed_at_ms", "version"])
      .where(hits, ">", 0)
      .orderBy(hits, "desc")
      .orderBy("seq")
      .orderBy("version", "desc")
      .limit(limit + 1)
      .offset(offset)
      .execute();
    const resources = rows.slice(0, limit).map((row) => this.#itemOf(row as Item));
    return { resources, hasMore: rows.length > limit };
  }

  /** Versions whose entries can match: each has names of its own for the network. */
  #versionsOf({ type, network, x402Version }: CatalogueFilter): (1 | 2)[] {
    const own = this.#deps.network;
    if (type !== undefined && type !== "http") return [];
    return ([2, 1] as const).filter((version) => {
      if (x402Version !== undefined && x402Version !== version) return false;
      if (network === undefined) return true;
      const isCaip2 = network.includes(":");
      return isCaip2 === (version === 2) && findNetwork(network, [own])?.chainId === own.chainId;
    });
  }

  /** A revoked key takes a provider's listings away at once, before the next check. */
  #matching({ payTo, scheme, extensions }: CatalogueFilter, versions: readonly (1 | 2)[]) {
    const { store, network, nowMs } = this.#deps;
    const wanted = { ...(payTo !== undefined && { payTo }), ...(scheme !== undefined && { scheme }) };
    const hasPrice: Expression<SqlBool> = sql`terms -> 'prices' -> version::text @> ${JSON.stringify([wanted])}::jsonb`;
    const versionList = sql.join(versions.map((version) => sql`(${version}::int)`));
    return store.db
      .selectFrom("listings")
      .innerJoin(sql<{ version: number }>`(values ${versionList})`.as<"v">(sql`v(version)`), (join) => join.onTrue())
      .where("chain_id", "=", network.chainId)
      .where("state", "=", "listed")
      .where(hasPrice)
      .$if(extensions !== undefined && extensions !== "bazaar", (query) => query.where(sql<SqlBool>`false`))
      .where(({ exists, selectFrom }) =>
        exists(
          selectFrom("api_keys")
            .select("api_keys.id")
            .whereRef("api_keys.provider", "=", "listings.provider")
            .where(onChains("api_keys", [network.chainId]))
            .where("revoked_at_ms", "is", null)
            .where("expires_at_ms", ">", nowMs()),
        ),
      );
  }

  #itemOf({ url, method, terms, listed_at_ms: listedAtMs, version }: Item): DiscoveredResource {
    const { description, mimeType, serviceName, tags } = terms;
    const extensions = { bazaar: bazaarOf(url, method, terms) };
    const prices = terms.prices[version] ?? [];
    return {
      resource: url,
      type: "http" as const,
      x402Version: version,
      accepts: prices.map((price) =>
        version === 2 ? this.#second(price) : this.#first(price, { url, method, terms }),
      ),
      lastUpdated: new Date(listedAtMs).toISOString(),
      ...(description !== undefined && { description }),
      ...(mimeType !== undefined && { mimeType }),
      ...(serviceName !== undefined && { serviceName }),
      ...(tags !== undefined && { tags: [...tags] }),
      extensions,
    };
  }

  #second({ scheme, amount, asset, payTo, maxTimeoutSeconds, extra }: ListingPrice) {
    const network = caip2Of(this.#deps.network.chainId);
    return { scheme, network, amount, asset, payTo, maxTimeoutSeconds, extra };
  }

  #first(
    { scheme, amount, asset, payTo, maxTimeoutSeconds, extra }: ListingPrice,
    { url, method, terms }: Pick<Item, "url" | "method" | "terms">,
  ) {
    const { name, x402v1 = name } = this.#deps.network;
    return {
      scheme,
      network: x402v1,
      maxAmountRequired: amount,
      resource: url,
      description: terms.description ?? "",
      mimeType: terms.mimeType ?? "",
      outputSchema: { input: { type: "http", method, discoverable: true } },
      payTo,
      maxTimeoutSeconds,
      asset,
      extra,
    };
  }
}

/** How to call the resource: as its 402 states it, or the method alone; the template always is the listing's. */
function bazaarOf(url: string, method: string, { bazaar }: ListingTerms): Record<string, unknown> {
  const routeTemplate = stockTemplateOf(url);
  const stated = bazaar ?? {
    info: { input: { type: "http", method } },
    schema: {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      properties: { input: { type: "object", required: ["type", "method"] } },
      required: ["input"],
    },
  };
  return { info: stated.info, schema: stated.schema, ...(routeTemplate !== undefined && { routeTemplate }) };
}
