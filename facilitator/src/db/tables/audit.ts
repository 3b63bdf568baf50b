import type { ColumnType, Generated } from "kysely";

/** Administrative acts: who did what, when, from where. Written in the transaction of the act; holds no secret. */
export interface AuditLogTable {
  seq: Generated<number>;
  chain_id: number;
  at_ms: number;
  provider: string;
  /** id of an API key, `wallet`, `service` or `operator` */
  actor: string;
  act: string;
  object_id: string;
  /** address of the client; empty for the service itself */
  address: string;
  request_id: string | null;
  details: ColumnType<Record<string, unknown>, string, never>;
}
