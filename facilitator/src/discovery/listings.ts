/**
 * Manages a provider's listings. The caller names a provider and has no access to another provider's listings. What a
 * listing shows comes from checks alone.
 */
import { randomBytes } from "node:crypto";
import type { Selectable } from "kysely";
import type { CreateListingRequest, Listing } from "turnpike/facilitator";
import { InvalidRequest, TurnpikeError } from "turnpike/protocol";
import { recordAct } from "../db/audit";
import type { Store, Tx } from "../db/open";
import type { ListingsTable } from "../db/tables/discovery";
import type { Caller } from "../providers/keys";
import { checkTemplate } from "./template";

export interface ListingsDeps {
  readonly store: Store;
  readonly chainId: number;
  readonly allowPrivate: boolean;
  readonly perProvider: number;
  /** unix milliseconds */
  readonly nowMs: () => number;
}

export type ListingRow = Selectable<ListingsTable>;

/** The caller, as recorded in the audit log. */
type Actor = Pick<Caller, "provider" | "keyId" | "address" | "requestId">;

export class Listings {
  readonly #deps: ListingsDeps;

  constructor(deps: ListingsDeps) {
    this.#deps = deps;
  }

  /**
   * Creates a listing, which the next check may show. A method and URL that the provider has listed already keeps its
   * id, takes the new sample, and is checked again.
   * @throws InvalidRequest
   */
  async create(actor: Actor, request: CreateListingRequest): Promise<{ listing: Listing; isNew: boolean }> {
    const { store, chainId, perProvider, allowPrivate, nowMs } = this.#deps;
    const { method } = request;
    const { url, host } = checkTemplate(request, { allowPrivate });
    const sample = JSON.stringify(request.sample);
    return store.transaction(async (tx) => {
      await lockProvider(tx, chainId, actor.provider);
      const known = await this.#own(tx, actor.provider)
        .where("method", "=", method)
        .where("url", "=", url)
        .executeTakeFirst();
      if (known) {
        const row = await tx
          .updateTable("listings")
          .set({ sample, due_at_ms: nowMs() })
          .where("id", "=", known.id)
          .returningAll()
          .executeTakeFirstOrThrow();
        return { listing: listingToWire(row), isNew: false };
      }
      const { count } = await tx
        .selectFrom("listings")
        .select(({ fn }) => fn.countAll().as("count"))
        .where("chain_id", "=", chainId)
        .where("provider", "=", actor.provider)
        .executeTakeFirstOrThrow();
      if (Number(count) >= perProvider) {
        throw new InvalidRequest(`a provider may have ${perProvider} listings: remove one first`);
      }
      await requireFewUnchecked(tx, chainId, actor);
      const row = await tx
        .insertInto("listings")
        .values({
          id: `ls_${randomBytes(12).toString("hex")}`,
          chain_id: chainId,
          provider: actor.provider,
          method,
          url,
          host,
          sample,
          created_from: actor.address,
          state: "pending",
          problem: null,
          terms: null,
          created_at_ms: nowMs(),
          checked_at_ms: null,
          listed_at_ms: null,
          hidden_at_ms: null,
          due_at_ms: nowMs(),
        })
        .returningAll()
        .executeTakeFirstOrThrow();
      await this.#record(tx, actor, "listing.created", row.id, { method, url });
      return { listing: listingToWire(row), isNew: true };
    });
  }

  async list(provider: string): Promise<Listing[]> {
    const rows = await this.#own(this.#deps.store.db, provider).orderBy("seq").execute();
    return rows.map(listingToWire);
  }

  /** @throws UnknownObject, also for a listing of another provider */
  async get(provider: string, id: string): Promise<Listing> {
    const row = await this.#own(this.#deps.store.db, provider).where("id", "=", id).executeTakeFirst();
    if (!row) throw unknownListing(id);
    return listingToWire(row);
  }

  /** @throws UnknownObject, also for a listing of another provider */
  async remove(actor: Actor, id: string): Promise<void> {
    await this.#deps.store.transaction(async (tx) => {
      const { numDeletedRows } = await tx
        .deleteFrom("listings")
        .where("chain_id", "=", this.#deps.chainId)
        .where("provider", "=", actor.provider)
        .where("id", "=", id)
        .executeTakeFirst();
      if (numDeletedRows === 0n) throw unknownListing(id);
      await this.#record(tx, actor, "listing.deleted", id);
    });
  }

  #own(db: Store["db"], provider: string) {
    return db
      .selectFrom("listings")
      .selectAll()
      .where("chain_id", "=", this.#deps.chainId)
      .where("provider", "=", provider);
  }

  #record(tx: Tx, actor: Actor, act: string, objectId: string, details: Record<string, unknown> = {}): Promise<void> {
    const { provider, keyId, address, requestId } = actor;
    const { chainId } = this.#deps;
    return recordAct(tx, { chainId, provider, actor: keyId, act, objectId, details, address, requestId });
  }
}

/** Keys are free to make: the listings of one address that no check has seen are few. */
const MAX_UNCHECKED_PER_ADDRESS = 100;

/** @throws RateLimited */
async function requireFewUnchecked(tx: Tx, chainId: number, { address }: Actor): Promise<void> {
  const { count } = await tx
    .selectFrom("listings")
    .select(({ fn }) => fn.countAll().as("count"))
    .where("chain_id", "=", chainId)
    .where("created_from", "=", address)
    .where("checked_at_ms", "is", null)
    .executeTakeFirstOrThrow();
  if (Number(count) < MAX_UNCHECKED_PER_ADDRESS) return;
  const message = `${count} listings from this address wait for their first check: list more when they are checked`;
  throw new TurnpikeError("RateLimited", message, { retryAfterSec: 60 });
}

/** Serializes a provider's new listings, so that two at once do not pass its limit. */
async function lockProvider(tx: Tx, chainId: number, provider: string): Promise<void> {
  await tx
    .selectFrom("api_keys")
    .select("id")
    .where("chain_id", "=", chainId)
    .where("provider", "=", provider)
    .orderBy("id")
    .forUpdate()
    .execute();
}

const unknownListing = (id: string) => new TurnpikeError("UnknownObject", `no listing ${id}`);

function listingToWire(row: ListingRow): Listing {
  const { id, url, method, sample, state, problem, checked_at_ms: checkedAtMs } = row;
  return {
    id,
    url,
    method,
    sample,
    state,
    ...(problem !== null && { problem }),
    createdAt: secOf(row.created_at_ms),
    ...(checkedAtMs !== null && { checkedAt: secOf(checkedAtMs) }),
    nextCheckAt: secOf(row.due_at_ms),
  };
}

const secOf = (ms: number): number => Math.floor(ms / 1_000);
