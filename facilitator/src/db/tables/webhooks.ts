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
  disabled_reason: "owner" | "gone" | null;
  /** attempts that failed since the last that did not */
  failures: Generated<number>;
  created_at_ms: number;
  /** Events with a higher `seq` are queued for it; null: not recorded, by a release before 440 */
  queued_after: number | null;
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
