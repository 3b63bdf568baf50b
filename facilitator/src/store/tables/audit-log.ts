/** Administrative acts: who did what, when, from where. Written in the transaction of the act; holds no secret. */
import type { ColumnType, Generated } from "kysely";
import { databaseNowMs } from "../database-clock";
import type { Db } from "../open";

export interface AuditLogTable {
  seq: Generated<number>;
  chain_id: number;
  at_ms: number;
  provider: string;
  /** id of an API key, `wallet`, `service` or `operator` */
  actor: string;
  act: string;
  object_id: string;
  /** of the client; empty for the service itself */
  address: string;
  request_id: string | null;
  details: ColumnType<Record<string, unknown>, string, never>;
}

export interface AuditedAct {
  readonly chainId: number;
  readonly provider: string;
  readonly actor: string;
  readonly act: string;
  readonly objectId: string;
  readonly address?: string;
  readonly requestId?: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

export async function recordAct(db: Db, act: AuditedAct): Promise<void> {
  await db
    .insertInto("audit_log")
    .values({
      chain_id: act.chainId,
      at_ms: databaseNowMs,
      provider: act.provider,
      actor: act.actor,
      act: act.act,
      object_id: act.objectId,
      address: act.address ?? "",
      request_id: act.requestId ?? null,
      details: JSON.stringify(act.details ?? {}),
    })
    .execute();
}
