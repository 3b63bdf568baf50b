/** Reads one provider's log of administrative acts, newest first, and adds what its wallet did elsewhere. */
import type { auditListSchema, NoteRequest } from "turnpike/facilitator";
import type { Address } from "turnpike/protocol";
import type { z } from "zod";
import { recordAct } from "../db/audit";
import type { Db } from "../db/open";
import type { Owner } from "../db/owner";
import type { Caller } from "./keys";

export interface AuditPage {
  /** position of the last entry read; 0 for the newest */
  readonly before: number;
  readonly limit: number;
}

export async function listActs(
  db: Db,
  { chainIds, provider }: Owner,
  { before, limit }: AuditPage,
): Promise<z.input<typeof auditListSchema>> {
  const own = db
    .selectFrom("audit_log")
    .selectAll()
    .where("chain_id", "in", [...chainIds])
    .where("provider", "=", provider);
  const rows = await (before > 0 ? own.where("seq", "<", before) : own)
    .orderBy("seq", "desc")
    .limit(limit + 1)
    .execute();
  const shown = rows.slice(0, limit);
  const last = rows.length > limit ? shown.at(-1)?.seq : undefined;
  const entries = shown.map((row) => ({
    at: Math.floor(row.at_ms / 1_000),
    actor: row.actor,
    act: row.act,
    object: row.object_id,
    address: row.address,
    ...(row.request_id !== null && { requestId: row.request_id }),
    details: row.details,
  }));
  return { provider: provider as Address, entries, ...(last === undefined ? {} : { next: String(last) }) };
}

/** Notes an act as the key reports it: unlike other entries it proves no more than that. */
export function noteAct(db: Db, chainId: number, caller: Caller, { act, object, transaction }: NoteRequest) {
  const { provider, keyId: actor, address, requestId } = caller;
  const details = { noted: true, ...(transaction && { transaction }) };
  return recordAct(db, { chainId, provider, actor, act, objectId: object, address, requestId, details });
}
