/** Listings on a database of their own, with providers, plans and checks whose clock and resolver the test sets. */
import pino from "pino";
import type { CreateListingRequestWire, DiscoveredResource, Listing } from "turnpike/facilitator";
import { type Address, addressOfKey, keccakText, networkOfChain } from "turnpike/protocol";
import type { Lookup } from "turnpike/public-lookup";
import type { Store } from "../../../../facilitator/src/db/open";
import { Catalogue, type CatalogueFilter } from "../../../../facilitator/src/discovery/catalogue";
import { type ListingChecks, startListingChecks } from "../../../../facilitator/src/discovery/checks";
import { Listings } from "../../../../facilitator/src/discovery/listings";
import { createProber } from "../../../../facilitator/src/discovery/probe";
import { embeddedStore } from "../../../support/store";

export const NETWORK = networkOfChain(84_532);
export const TOKEN = { address: addressOfKey(keccakText("token")), name: "USD", version: "2" };
export const CHECK_EVERY_MS = 21_600_000;

export const walletOf = (name: string): Address => addressOfKey(keccakText(name));
export const actorOf = (provider: Address) => ({ provider, keyId: "k", address: "127.0.0.1", requestId: "r" });

export interface TestCatalogue {
  readonly store: Store;
  readonly listings: Listings;
  readonly clock: { nowMs: number };
  /** Gives the provider an API key. */
  enrol(provider: Address): Promise<void>;
  revoke(provider: Address): Promise<void>;
  plan(provider: Address, payTo: Address): Promise<void>;
  list(provider: Address, wanted: CreateListingRequestWire): Promise<Listing>;
  /** Checks one listing now, and returns what its owner sees of it; undefined when it was dropped. */
  check(provider: Address, id: string, checks?: ListingChecks): Promise<Listing | undefined>;
  /** a worker of its own that looks only when asked */
  checks(options?: { lookup?: Lookup; allowPrivate?: boolean; timeoutMs?: number }): ListingChecks;
  shown(filter?: CatalogueFilter): Promise<DiscoveredResource[]>;
  search(query: string): Promise<DiscoveredResource[]>;
  close(): Promise<void>;
}

export async function openCatalogue(perProvider = 50): Promise<TestCatalogue> {
  // Its workers are one process, without leases.
  const store = await embeddedStore();
  const { chainId } = NETWORK;
  const clock = { nowMs: 1_800_000_000_000 };
  const nowMs = () => clock.nowMs;
  const listings = new Listings({ store, chainId, allowPrivate: true, perProvider, nowMs });
  const catalogue = new Catalogue({ store, network: NETWORK, nowMs });
  const workers: ListingChecks[] = [];

  function checks({ allowPrivate = true, ...options }: Parameters<TestCatalogue["checks"]>[0] = {}): ListingChecks {
    const worker = startListingChecks({
      store,
      own: { network: NETWORK, tokens: [TOKEN] },
      prober: createProber({ allowPrivate, ...options }),
      log: pino({ level: "silent" }),
      checkEveryMs: CHECK_EVERY_MS,
      pollMs: 3_600_000,
      nowMs,
      monotonicMs: () => performance.now(),
    });
    workers.push(worker);
    return worker;
  }
  const usual = checks();

  return {
    store,
    listings,
    clock,
    checks,
    async enrol(provider) {
      const times = { created_at_ms: 0, expires_at_ms: clock.nowMs * 2, revoked_at_ms: null, last_used_at_ms: null };
      const about = { name: "", scopes: "listings", hash: "", rotated_from: null };
      const row = { id: provider, chain_id: chainId, provider, ...about, ...times };
      await store.db.insertInto("api_keys").values(row).execute();
    },
    async revoke(provider) {
      await store.db
        .updateTable("api_keys")
        .set({ revoked_at_ms: clock.nowMs })
        .where("provider", "=", provider)
        .execute();
    },
    async plan(provider, payTo) {
      const amounts = { token: TOKEN.address, amount: "1", interval_sec: 1, grace_sec: 0 };
      const moves = { first_provider: null, first_pay_to: null, proposed_pay_to: null, pay_to_effective_at: null };
      const rest = { salt: "", metadata: "", deprecated: false, successor: null, block_number: 1, created_at: 1 };
      const planId = keccakText(provider + payTo);
      await store.db
        .insertInto("plans")
        .values({
          chain_id: chainId,
          plan_id: planId,
          plan_index: 1,
          provider,
          pay_to: payTo,
          ...amounts,
          ...moves,
          ...rest,
        })
        .execute();
    },
    async list(provider, { method = "GET", sample = {}, url }) {
      return (await listings.create(actorOf(provider), { url, method, sample })).listing;
    },
    async check(provider, id, worker = usual) {
      const set = { due_at_ms: clock.nowMs };
      await store.db.updateTable("listings").set(set).where("id", "=", id).execute();
      await worker.tick();
      return (await listings.list(provider)).find((each) => each.id === id);
    },
    shown: async (filter = {}) => (await catalogue.page(filter, { offset: 0, limit: 100 })).items,
    search: async (query) => (await catalogue.search(query, {}, { offset: 0, limit: 100 })).resources,
    async close() {
      for (const worker of workers) await worker.stop();
      await store.close();
    },
  };
}
