import type { Db } from "./open";
import { databaseNowMs } from "./sql";

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
