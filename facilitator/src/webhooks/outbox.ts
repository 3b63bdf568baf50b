/**
 * Reads and writes the outbox for the delivery worker: due deliveries without a lease, and the outcomes of attempts.
 */
import { type RawBuilder, sql } from "kysely";
import { DIGEST_TYPE } from "turnpike/facilitator";
import { recordAct } from "../db/audit";
import type { Db, Store, Tx } from "../db/open";
import { onChains } from "../db/owner";
import { databaseNowMs, idList, intList } from "../db/sql";
import type { WebhookAttemptsTable } from "../db/tables/webhooks";
import { wholePayload } from "../events/payload";
import type { EventProjection, PublishedRow } from "../events/projection";
import type { EventContents } from "./message";

/**
 * Queues published events for every enabled endpoint of their provider that accepts their type. An event is queued once
 * for an endpoint. An endpoint that accepts reversals also gets the event that undoes one. `for key share` waits for an
 * endpoint that is being deleted, instead of failing with it.
 */
export const outbox: EventProjection = { appended: queueDeliveries };

/** An endpoint of every type has not asked for digests. */
const wants = (types: RawBuilder<unknown>, type: RawBuilder<unknown>) =>
  sql`${types} is null and ${type} <> ${DIGEST_TYPE} or jsonb_exists(${types}, ${type})`;

async function queueDeliveries(tx: Tx, chainId: number, events: readonly PublishedRow[]): Promise<void> {
  const owned = events.flatMap(({ id, type, provider }) => (provider === null ? [] : [{ id, type, provider }]));
  if (owned.length === 0) return;
  await sql`
    insert into webhook_deliveries (endpoint_id, event_id, chain_id, due_at_ms, created_at_ms)
    select e.id, emitted.event ->> 'id', ${chainId}::bigint, ${databaseNowMs}, ${databaseNowMs}
    from jsonb_array_elements(${JSON.stringify(owned)}::jsonb) with ordinality as emitted (event, place)
    join webhook_endpoints e on ${onChains("e", [chainId])} and e.provider = emitted.event ->> 'provider'
      and e.status = 'enabled' and (${wants(sql`e.types`, sql`emitted.event ->> 'type'`)}
        or emitted.event ->> 'type' = 'payment.restored' and jsonb_exists(e.types, 'payment.reversed')
        or emitted.event ->> 'type' = 'refund.restored' and jsonb_exists(e.types, 'refund.reversed'))
    order by emitted.place
    for key share of e
    on conflict (endpoint_id, event_id) do nothing`.execute(tx);
}

export interface DeliveryClaim {
  readonly chainId: number;
  readonly nowMs: number;
  readonly leaseMs: number;
  readonly limit: number;
  /** deliveries of one endpoint at once */
  readonly share: number;
  /** healthy: the last attempt did not fail */
  readonly endpoints: "healthy" | "failing";
  /** endpoints that use their whole share */
  readonly busy: readonly string[];
}

export interface Delivery {
  readonly endpointId: string;
  readonly eventId: string;
  readonly provider: string;
  readonly url: string;
  readonly secrets: readonly string[];
  readonly step: number;
  /** unix milliseconds by the database's clock */
  readonly createdAtMs: number;
  readonly attempts: number;
  /** Only a test event has one. */
  readonly body: string | null;
  readonly event: EventContents | undefined;
}

interface ClaimedRow {
  endpoint_id: string;
  event_id: string;
  step: number;
  attempts: number;
  created_at_ms: number;
  body: string | null;
  url: string;
  provider: string;
}

/** Claims due deliveries, oldest first, up to each endpoint's share: a long queue does not delay other endpoints. */
export async function claimDeliveries(db: Db, claim: DeliveryClaim): Promise<Delivery[]> {
  const { chainId, nowMs, leaseMs, limit, share, endpoints, busy } = claim;
  const { rows } = await sql<ClaimedRow>`
    with picked as (
      select due.endpoint_id, due.event_id, e.url, e.provider from webhook_endpoints e cross join lateral (
        select d.endpoint_id, d.event_id, d.due_at_ms from webhook_deliveries d
        where d.endpoint_id = e.id and d.chain_id = ${chainId}::bigint and d.state = 'pending' and d.due_at_ms <= ${nowMs}::bigint
          and d.lease_until_ms <= ${nowMs}::bigint
        order by d.due_at_ms, d.seq limit ${share}::int for update skip locked) due
      where ${onChains("e", [chainId])} and e.status = 'enabled' and (e.failures = 0) = ${endpoints === "healthy"}::boolean
        and not e.id = any(${idList(busy)})
      order by due.due_at_ms limit ${limit}::int)
    update webhook_deliveries d set lease_until_ms = ${nowMs + leaseMs}::bigint from picked
    where d.endpoint_id = picked.endpoint_id and d.event_id = picked.event_id
    returning d.endpoint_id, d.event_id, d.step, d.attempts, d.created_at_ms, d.body, picked.url, picked.provider`.execute(
    db,
  );
  if (rows.length === 0) return [];
  const events = await eventsOf(db, chainId, rows);
  const secrets = await secretsOf(db, rows, nowMs);
  return rows.map((row) => ({
    endpointId: row.endpoint_id,
    eventId: row.event_id,
    provider: row.provider,
    url: row.url,
    secrets: secrets.get(row.endpoint_id) ?? [],
    step: row.step,
    attempts: row.attempts,
    createdAtMs: row.created_at_ms,
    body: row.body,
    event: events.get(row.event_id),
  }));
}

/** Extends the leases of deliveries that are being sent and have no other outcome yet. */
export async function extendLeases(
  db: Db,
  deliveries: readonly Pick<Delivery, "endpointId" | "eventId" | "attempts">[],
  untilMs: number,
): Promise<void> {
  const endpoints = deliveries.map(({ endpointId }) => endpointId);
  const events = deliveries.map(({ eventId }) => eventId);
  const attempts = deliveries.map((delivery) => delivery.attempts);
  // Skips rows whose outcome is being written: waiting could deadlock with an endpoint that is being disabled.
  await sql`
    with mine as (
      select d.endpoint_id, d.event_id
      from unnest(${endpoints}::text[], ${events}::text[], ${attempts}::int[]) as x(endpoint_id, event_id, attempts)
        join webhook_deliveries d on d.endpoint_id = x.endpoint_id and d.event_id = x.event_id
      where d.attempts = x.attempts and d.state = 'pending' for update of d skip locked)
    update webhook_deliveries d set lease_until_ms = ${untilMs}::bigint
    from mine where d.endpoint_id = mine.endpoint_id and d.event_id = mine.event_id`.execute(db);
}

/** Checks cheaply whether there is anything to claim. */
export async function isAnythingDue(db: Db, chainId: number, nowMs: number): Promise<boolean> {
  const row = await db
    .selectFrom("webhook_deliveries")
    .select("event_id")
    .where("chain_id", "=", chainId)
    .where("state", "=", "pending")
    .where("due_at_ms", "<=", nowMs)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

async function eventsOf(db: Db, chainId: number, rows: readonly ClaimedRow[]): Promise<Map<string, EventContents>> {
  const ids = rows.filter((row) => row.body === null).map((row) => row.event_id);
  if (ids.length === 0) return new Map();
  const events = await db
    .selectFrom("events")
    .select([
      "id",
      "type",
      "object_id",
      "sequence",
      "provider",
      "payer",
      "block_number",
      "block_time",
      "transaction",
      "payload",
    ])
    .where("chain_id", "=", chainId)
    .where("id", "in", [...new Set(ids)])
    .execute();
  return new Map(events.map((event) => [event.id, { ...event, payload: wholePayload(event) }]));
}

async function secretsOf(db: Db, rows: readonly ClaimedRow[], nowMs: number): Promise<Map<string, string[]>> {
  const all = await db
    .selectFrom("webhook_secrets")
    .select(["endpoint_id", "secret"])
    .where("endpoint_id", "in", [...new Set(rows.map((row) => row.endpoint_id))])
    .where((eb) => eb.or([eb("expires_at_ms", "is", null), eb("expires_at_ms", ">", nowMs)]))
    .orderBy("created_at_ms", "desc")
    .execute();
  const secrets = new Map<string, string[]>();
  for (const { endpoint_id: id, secret } of all) secrets.set(id, [...(secrets.get(id) ?? []), secret]);
  return secrets;
}

/** The outcome of an attempt. `released`: no attempt was made. */
export type Conclusion =
  | { readonly kind: "delivered" }
  | { readonly kind: "retry"; readonly dueAtMs: number }
  | { readonly kind: "exhausted" }
  | { readonly kind: "gone" }
  | { readonly kind: "released" };

export interface AttemptFacts {
  readonly nowMs: number;
  readonly durationMs: number;
  readonly statusCode?: number;
  readonly error?: WebhookAttemptsTable["error"];
}

export async function concludeAttempt(
  store: Store,
  delivery: Delivery & { readonly chainId: number },
  conclusion: Conclusion,
  facts: AttemptFacts,
): Promise<void> {
  const { endpointId, eventId, attempts } = delivery;
  const own = (tx: Tx) =>
    tx
      .updateTable("webhook_deliveries")
      .where("endpoint_id", "=", endpointId)
      .where("event_id", "=", eventId)
      // Another process took over an expired lease and recorded an outcome first: that outcome is kept.
      .where("attempts", "=", attempts)
      .where("state", "=", "pending");
  await store.transaction(async (tx) => {
    if (conclusion.kind === "released") {
      await own(tx).set({ lease_until_ms: 0 }).execute();
      return;
    }
    // Locks the endpoint before its deliveries, as disabling does: two orders would deadlock.
    await sql`select id from webhook_endpoints where id = ${endpointId} for no key update`.execute(tx);
    const finished = { lease_until_ms: 0, attempts: attempts + 1, finished_at_ms: facts.nowMs };
    const update =
      conclusion.kind === "retry"
        ? own(tx).set({
            due_at_ms: conclusion.dueAtMs,
            lease_until_ms: 0,
            attempts: attempts + 1,
            step: delivery.step + 1,
          })
        : own(tx).set({ ...finished, state: conclusion.kind === "delivered" ? "delivered" : "failed" });
    const { numUpdatedRows } = await update.executeTakeFirst();
    if (numUpdatedRows === 0n) return;
    await tx
      .insertInto("webhook_attempts")
      .values({
        endpoint_id: endpointId,
        event_id: eventId,
        number: attempts + 1,
        at_ms: facts.nowMs,
        duration_ms: facts.durationMs,
        status_code: facts.statusCode ?? null,
        error: facts.error ?? null,
      })
      .execute();
    if (conclusion.kind === "gone") return disable(tx, delivery, facts.nowMs);
    const endpoint = tx.updateTable("webhook_endpoints").where("id", "=", endpointId);
    if (conclusion.kind === "delivered") await endpoint.set({ failures: 0 }).where("failures", ">", 0).execute();
    else await endpoint.set({ failures: sql<number>`failures + 1` }).execute();
  });
}

async function disable(tx: Tx, delivery: Delivery & { readonly chainId: number }, nowMs: number): Promise<void> {
  const { endpointId, chainId, provider } = delivery;
  await tx
    .updateTable("webhook_endpoints")
    .set({ status: "disabled", disabled_reason: "gone" })
    .where("id", "=", endpointId)
    .execute();
  await dropPending(tx, endpointId, nowMs);
  await recordAct(tx, { chainId, provider, actor: "service", act: "webhook.disabled", objectId: endpointId });
}

/** Sets the start to the next event for endpoints of a release that did not record one. */
export async function recordBeginnings(store: Store, chainId: number): Promise<void> {
  const unrecorded = store.db
    .selectFrom("webhook_endpoints")
    .select("id")
    .where("chain_id", "=", chainId)
    .where("queued_after", "is", null);
  if (!(await unrecorded.limit(1).executeTakeFirst())) return;
  await store.transaction(async (tx) => {
    await tx
      .updateTable("webhook_endpoints")
      .set({ queued_after: await lockNewestEvent(tx, [chainId]) })
      .where("chain_id", "=", chainId)
      .where("queued_after", "is", null)
      .execute();
  });
}

/**
 * Returns the highest `seq` of an event. No event of these chains is added until `tx` ends, so each later event sees the endpoint as
 * `tx` changed it. Call it before the endpoint is locked: `appendEvents` locks in that order.
 */
export async function lockNewestEvent(tx: Tx, chainIds: readonly number[]): Promise<number> {
  // Always in one order: two orders would deadlock.
  await sql`select position from cursors where chain_id = any(${intList(chainIds)}) and name = 'indexer'
    order by chain_id for update`.execute(tx);
  // A separate statement, so that it sees rows committed while it waited for the lock.
  const newest = await tx
    .selectFrom("events")
    .select(({ fn }) => fn.max("seq").as("seq"))
    .executeTakeFirst();
  return Number(newest?.seq ?? 0);
}

export interface Unqueued {
  readonly endpoint: string;
  readonly event: string;
}

/**
 * Finds events that an enabled endpoint should have received and that were never queued for it. A resend
 * changes nothing.
 * @param blocks both inclusive; absent: all events
 */
export async function findUnqueued(
  db: Db,
  chainId: number,
  blocks?: { readonly fromBlock: number; readonly toBlock: number },
): Promise<Unqueued[]> {
  const within = blocks
    ? sql`and e.block_number between ${blocks.fromBlock}::bigint and ${blocks.toBlock}::bigint`
    : sql``;
  const { rows } = await sql<Unqueued>`
    select w.id as endpoint, e.id as event from webhook_endpoints w
      join events e on e.chain_id = ${chainId}::bigint and e.provider = w.provider and e.seq > w.queued_after
      left join webhook_deliveries d on d.endpoint_id = w.id and d.event_id = e.id
    where ${onChains("w", [chainId])} and w.status = 'enabled' and d.event_id is null
      and (${wants(sql`w.types`, sql`e.type`)}) ${within}`.execute(db);
  return rows;
}

export async function dropPending(tx: Tx, endpointId: string, nowMs: number): Promise<void> {
  await tx
    .updateTable("webhook_deliveries")
    .set({ state: "dropped", finished_at_ms: nowMs, lease_until_ms: 0 })
    .where("endpoint_id", "=", endpointId)
    .where("state", "=", "pending")
    .execute();
}
