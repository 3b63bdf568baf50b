/** Webhook endpoints, their secrets, the outbox and the log of attempts. */
import { type ColumnType, type Generated, sql } from "kysely";
import type { DELIVERY_ERRORS, DELIVERY_STATES } from "turnpike/facilitator";
import { databaseNowMs } from "../database-clock";
import type { Tx } from "../open";

export interface WebhookEndpointsTable {
  id: string;
  chain_id: number;
  provider: string;
  url: string;
  /** null: every type */
  types: ColumnType<string[] | null, string | null, string | null>;
  description: string;
  status: "enabled" | "disabled";
  disabled_reason: "owner" | "gone" | null;
  /** attempts that failed since the last that did not */
  failures: Generated<number>;
  created_at_ms: number;
}

export interface WebhookSecretsTable {
  endpoint_id: string;
  secret: string;
  created_at_ms: number;
  /** null: the newest */
  expires_at_ms: number | null;
}

/** One event for one endpoint: the outbox. */
export interface WebhookDeliveriesTable {
  seq: Generated<number>;
  chain_id: number;
  endpoint_id: string;
  event_id: string;
  /** of a test event; all others are told from their row in `events` */
  body: string | null;
  state: Generated<(typeof DELIVERY_STATES)[number]>;
  /** place in the schedule of attempts; a resend begins it anew */
  step: Generated<number>;
  /** attempts ever made */
  attempts: Generated<number>;
  due_at_ms: number;
  lease_until_ms: Generated<number>;
  created_at_ms: number;
  finished_at_ms: number | null;
}

export interface WebhookAttemptsTable {
  endpoint_id: string;
  event_id: string;
  number: number;
  at_ms: number;
  duration_ms: number;
  status_code: number | null;
  error: (typeof DELIVERY_ERRORS)[number] | null;
}

export interface ToldEvent {
  readonly id: string;
  readonly chain_id: number;
  readonly type: string;
  readonly provider: string | null;
}

/**
 * Puts new events into the outbox of every endpoint of their provider that wants them. Called within the transaction
 * that writes the events, so that neither exists without the other; an event is never queued twice for an endpoint. Who
 * wants to be told of reversals is told when one is undone. The lock makes it wait for an endpoint that is being deleted, instead of failing with it.
 */
export async function queueDeliveries(tx: Tx, chainId: number, events: readonly ToldEvent[]): Promise<void> {
  const owned = events.flatMap(({ id, type, provider }) => (provider === null ? [] : [{ id, type, provider }]));
  if (owned.length === 0) return;
  await sql`
    insert into webhook_deliveries (endpoint_id, event_id, chain_id, due_at_ms, created_at_ms)
    select e.id, told.event ->> 'id', e.chain_id, ${databaseNowMs}, ${databaseNowMs}
    from jsonb_array_elements(${JSON.stringify(owned)}::jsonb) with ordinality as told (event, place)
    join webhook_endpoints e on e.chain_id = ${chainId}::bigint and e.provider = told.event ->> 'provider'
      and e.status = 'enabled' and (e.types is null or jsonb_exists(e.types, told.event ->> 'type')
        or told.event ->> 'type' = 'payment.restored' and jsonb_exists(e.types, 'payment.reversed'))
    order by told.place
    for key share of e
    on conflict (endpoint_id, event_id) do nothing`.execute(tx);
}
