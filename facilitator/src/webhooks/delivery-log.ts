import { sql } from "kysely";
import {
  type attemptSchema,
  type deliveryDetailSchema,
  type deliveryListSchema,
  TEST_EVENT_TYPE,
} from "turnpike/facilitator";
import { networkOfChain, TurnpikeError } from "turnpike/protocol";
import type { z } from "zod";
import type { Db } from "../db/open";
import { type Owner, onChains } from "../db/owner";
import { databaseNowMs, idList } from "../db/sql";
import { wholePayload } from "../events/payload";
import { bodyOf } from "./message";

export interface DeliveryPage {
  /** position of the last delivery read; 0 for the newest */
  readonly before: number;
  readonly limit: number;
  readonly state?: Row["state"] | undefined;
}

const unixSec = (ms: number): number => Math.floor(ms / 1_000);

function deliveries(db: Db, endpointId: string) {
  return db
    .selectFrom("webhook_deliveries as d")
    .leftJoin("events as e", (join) => join.onRef("e.chain_id", "=", "d.chain_id").onRef("e.id", "=", "d.event_id"))
    .select([
      ...([
        "d.seq",
        "d.chain_id",
        "d.body",
        "d.event_id",
        "d.state",
        "d.attempts",
        "d.created_at_ms",
        "d.due_at_ms",
        "d.finished_at_ms",
      ] as const),
      "e.type",
      "e.object_id",
    ])
    .where("d.endpoint_id", "=", endpointId);
}

type Row = Awaited<ReturnType<ReturnType<typeof deliveries>["executeTakeFirstOrThrow"]>>;

const toWire = (row: Row) => ({
  eventId: row.event_id,
  type: row.type ?? TEST_EVENT_TYPE,
  ...(row.object_id !== null && { subject: row.object_id }),
  state: row.state,
  attempts: row.attempts,
  createdAt: unixSec(row.created_at_ms),
  ...(row.state === "pending" && { nextAttemptAt: unixSec(row.due_at_ms) }),
  ...(row.finished_at_ms !== null && { finishedAt: unixSec(row.finished_at_ms) }),
});

/** @returns undefined for an event that retention has deleted */
async function bodyIn(db: Db, { event_id, chain_id, body }: Row): Promise<string | undefined> {
  if (body !== null) return body;
  const event = await db
    .selectFrom("events")
    .selectAll()
    .where("chain_id", "=", chain_id)
    .where("id", "=", event_id)
    .executeTakeFirst();
  return event && bodyOf({ ...event, payload: wholePayload(event) }, networkOfChain(chain_id));
}

export async function listDeliveries(
  db: Db,
  endpointId: string,
  { before, limit, state }: DeliveryPage,
): Promise<z.input<typeof deliveryListSchema>> {
  const rows = await deliveries(db, endpointId)
    .$if(before > 0, (query) => query.where("d.seq", "<", before))
    .$if(state !== undefined, (query) => query.where("d.state", "=", state as Row["state"]))
    .orderBy("d.seq", "desc")
    .limit(limit + 1)
    .execute();
  const shown = rows.slice(0, limit);
  const last = rows.length > limit ? shown.at(-1)?.seq : undefined;
  return { deliveries: shown.map(toWire), ...(last === undefined ? {} : { next: String(last) }) };
}

/** @throws UnknownObject */
export async function findDelivery(
  db: Db,
  endpointId: string,
  eventId: string,
): Promise<z.input<typeof deliveryDetailSchema>> {
  const row = await deliveries(db, endpointId).where("d.event_id", "=", eventId).executeTakeFirst();
  if (!row) throw new TurnpikeError("UnknownObject", `no delivery of ${eventId}`);
  const attempts = await db
    .selectFrom("webhook_attempts")
    .selectAll()
    .where("endpoint_id", "=", endpointId)
    .where("event_id", "=", eventId)
    .orderBy("number")
    .limit(100)
    .execute();
  const log = attempts.map(
    (attempt): z.input<typeof attemptSchema> => ({
      number: attempt.number,
      at: unixSec(attempt.at_ms),
      durationMs: attempt.duration_ms,
      ...(attempt.status_code !== null && { statusCode: attempt.status_code }),
      ...(attempt.error !== null && { error: attempt.error }),
    }),
  );
  const body = await bodyIn(db, row);
  return { ...toWire(row), log, ...(body !== undefined && { body }) };
}

/** Returns the deliveries of these events to a provider's endpoints, oldest first. */
export async function deliveriesOf(db: Db, { provider, chainIds }: Owner, eventIds: readonly string[]) {
  const endpoints = await db
    .selectFrom("webhook_endpoints")
    .select(["id", "url"])
    .where(onChains("webhook_endpoints", chainIds))
    .where("provider", "=", provider)
    .execute();
  const found = await Promise.all(
    endpoints.map(async ({ id, url }) => {
      const rows = await deliveries(db, id)
        .where(sql<boolean>`d.event_id = any(${idList(eventIds)})`)
        .execute();
      return rows.map((row) => ({ seq: row.seq, delivery: { ...toWire(row), endpoint: id, url } }));
    }),
  );
  return found
    .flat()
    .sort((a, b) => a.seq - b.seq)
    .map(({ delivery }) => delivery);
}

export async function countPending(db: Db, chainId: number): Promise<number> {
  const row = await db
    .selectFrom("webhook_deliveries")
    .select(({ fn }) => fn.countAll().as("count"))
    .where("chain_id", "=", chainId)
    .where("state", "=", "pending")
    .executeTakeFirstOrThrow();
  return Number(row.count);
}

export interface EndpointBacklog {
  readonly endpoint: string;
  readonly pending: number;
  readonly oldestSec: number;
}

/** Endpoints that are reported by themselves: those with the oldest deliveries. */
const MAX_REPORTED = 50;

export async function oldestBacklogs(db: Db, chainId: number): Promise<EndpointBacklog[]> {
  const { rows } = await sql<EndpointBacklog>`
    select endpoint_id as endpoint, count(*)::int as pending,
      greatest(0, (${databaseNowMs} - min(created_at_ms)) / 1000)::float8 as "oldestSec"
    from webhook_deliveries where chain_id = ${chainId}::bigint and state = 'pending'
    group by endpoint_id order by min(created_at_ms) limit ${MAX_REPORTED}`.execute(db);
  return rows;
}
