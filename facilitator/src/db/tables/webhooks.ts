/** Webhook endpoints, their secrets, the outbox and the log of attempts. */
import type { ColumnType, Generated } from "kysely";
import type { DELIVERY_ERRORS, DELIVERY_STATES } from "turnpike/facilitator";

export interface WebhookEndpointsTable {
  id: string;
  chain_id: number;
  provider: string;
  url: string;
  /** null: every type */
  types: ColumnType<string[] | null, string | null, string | null>;
  description: string;
  status: "enabled" | "disabled";
  disabled_reason: "owner" | "gone" | "operator" | null;
  /** failed attempts since the last successful one */
  failures: Generated<number>;
  created_at_ms: number;
  /** Events with a higher `seq` are queued for it; null: created before migration 440, not recorded */
  queued_after: number | null;
  /** whether it gets the events of every chain of the deployment */
  every_chain: Generated<boolean>;
}

export interface WebhookSecretsTable {
  endpoint_id: string;
  secret: string;
  created_at_ms: number;
  /** null for the newest */
  expires_at_ms: number | null;
}

/** Outbox: one event for one endpoint. */
export interface WebhookDeliveriesTable {
  seq: Generated<number>;
  chain_id: number;
  endpoint_id: string;
  event_id: string;
  /** body of a test event; other bodies are built from the row in `events` */
  body: string | null;
  state: Generated<(typeof DELIVERY_STATES)[number]>;
  /** position in the schedule of attempts; a resend restarts it */
  step: Generated<number>;
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
