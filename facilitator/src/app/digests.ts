/**
 * Publishes a digest of each day to the providers that have an endpoint for it: what the day brought, and what needs
 * attention. Its id names provider, chain and day, so any number of processes publish it once, whenever they start.
 */
import { sql } from "kysely";
import type { Logger } from "pino";
import { DIGEST_TYPE } from "turnpike/facilitator";
import { type Address, type Clock, type Hex, keccakText } from "turnpike/protocol";
import { createAnalytics } from "../analytics";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import { onChains } from "../db/owner";
import type { SharedClock } from "../db/shared-clock";
import type { EventDraft } from "../events/event";
import type { EventFeed } from "../events/feed";
import { newestBlock } from "../indexer/applied-blocks";
import { DAY_SEC } from "../lib/durations";
import { repeat, type Worker } from "../lib/loop";
import { createWebhookEndpoints, needsAttention } from "../webhooks/endpoints";

export interface DigestContext {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly feed: EventFeed;
  readonly clock: Clock;
  readonly wallClock: Pick<SharedClock, "nowMs">;
  readonly log: Logger;
}

const LOOK_MS = 2_000;

export function startDigests(context: DigestContext): Worker {
  const { log } = context;
  return repeat(
    () => publishDigests(context).catch((error: unknown) => log.warn({ error }, "digests wait for the next round")),
    () => new Promise((resolve) => setTimeout(resolve, LOOK_MS).unref()),
  );
}

/** Days that are published later at most, such as those of an outage. A provider's first digest is of one day. */
const MOST_DAYS = 7;

/** Publishes what is missing of the days whose blocks are all final. */
export async function publishDigests({ config, store, feed, clock, wallClock, log }: DigestContext): Promise<void> {
  const { chainId, network, finalityDepth, allowPrivateWebhooks: allowPrivate } = config;
  const { rows } = await sql<{ provider: Address }>`select distinct e.provider from webhook_endpoints e
    where ${onChains("e", [chainId])} and e.status = 'enabled' and jsonb_exists(e.types, ${DIGEST_TYPE})`.execute(
    store.db,
  );
  if (rows.length === 0) return;
  const newest = await newestBlock(store.db, chainId);
  const final = newest && (await newestBlock(store.db, chainId, newest.number - finalityDepth));
  if (!final) return;
  const to = final.timestamp - (final.timestamp % DAY_SEC);
  const analytics = createAnalytics({ db: store.db, config, clock });
  const endpoints = createWebhookEndpoints({ store, network, allowPrivate, nowMs: wallClock.nowMs });
  const publishDay = async (
    provider: Address,
    objectId: Hex,
    range: { readonly from: number; readonly to: number },
  ) => {
    const [{ totals }, attention, all] = await Promise.all([
      analytics.movementTotals(provider, { range, zone: "UTC", sort: "newest" }),
      analytics.attention(provider),
      endpoints.list({ provider, chainIds: [chainId] }),
    ]);
    const failing = all.filter(needsAttention);
    const draft: EventDraft = {
      id: keccakText([chainId, provider, DIGEST_TYPE, range.from].join("/")),
      chainId,
      type: DIGEST_TYPE,
      objectId,
      provider,
      payload: {
        provider,
        ...range,
        totals,
        ...attention,
        endpoints: failing.map(({ id, description, status, failures }) => ({ id, description, status, failures })),
      },
      blockTime: clock.nowSec(),
    };
    await store.transaction((tx) => feed.append(tx, [draft]));
    store.notifier.notify("events");
  };
  const publish = async (provider: Address) => {
    const objectId = keccakText([chainId, provider, DIGEST_TYPE].join("/"));
    const newestTo = sql<{ to: string }>`select payload->>'to' as "to" from events
      where chain_id = ${chainId} and object_id = ${objectId} order by sequence desc limit 1`;
    const [last] = (await newestTo.execute(store.db)).rows;
    const since = last ? Math.max(Number(last.to), to - MOST_DAYS * DAY_SEC) : to - DAY_SEC;
    for (let from = since; from < to; from += DAY_SEC)
      await publishDay(provider, objectId, { from, to: from + DAY_SEC });
  };
  // What hinders one provider's digest does not hinder the others'.
  for (const { provider } of rows) {
    await publish(provider).catch((error: unknown) =>
      log.warn({ error, provider }, "a digest waits for the next round"),
    );
  }
}
