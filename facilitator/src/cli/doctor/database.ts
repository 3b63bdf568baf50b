import { sql } from "kysely";
import { isTurnpikeError } from "turnpike/protocol";
import type { ChainReader } from "../../chain/chain-reader";
import type { Finding } from "../../chain/contract-checks";
import type { FacilitatorConfig } from "../../config";
import { FOREIGN_REMEDY, foreignContracts } from "../../db/chain-contracts";
import { NEWER_REMEDY, pendingMigrations, STOP_FIRST } from "../../db/migrate";
import { connectStore, type Store } from "../../db/open";
import { describeOutage } from "../../db/outage";
import { newestBlock } from "../../indexer/applied-blocks";
import { chainMismatch, MISMATCH_REMEDY } from "../../indexer/same-chain";
import { examineConnection, tlsFailure } from "./connection";

const SKEW_SEC = 5;

/** Compares what was read with the chain. @param store migrated */
export async function examineReading(
  { database, chainId, network }: FacilitatorConfig,
  chain: ChainReader,
  { db }: Store,
): Promise<Finding[]> {
  const mismatch = await chainMismatch({ db, chain, chainId });
  if (!mismatch) return [];
  // A public node may be a moment behind another one.
  const level = mismatch.kind === "other" || network.name.startsWith("local-") ? "fail" : "warn";
  const subject = database.kind === "postgres" ? "DATABASE_URL" : "PGLITE_DIR";
  return [{ level, subject, detail: mismatch.detail, remedy: MISMATCH_REMEDY }];
}

export interface DatabaseExamined {
  readonly findings: Finding[];
  /** closed by the caller; absent when it cannot be read */
  readonly store?: Store;
}

export async function examineDatabase(config: FacilitatorConfig, nowMs: () => number): Promise<DatabaseExamined> {
  const subject = config.database.kind === "postgres" ? "DATABASE_URL" : "PGLITE_DIR";
  let store: Store;
  try {
    store = await connectStore(config.database);
    await sql`select 1`.execute(store.db);
  } catch (error) {
    const tls = tlsFailure(error);
    if (tls) return { findings: [tls] };
    // A driver's message may contain the URL.
    const isOurs = error instanceof Error && error.name === "ConfigError";
    const detail = isOurs ? error.message : `it cannot be reached: ${describeOutage(error)}`;
    const remedy = isOurs
      ? "stop the Facilitator, or ask its /readyz"
      : "start the server, create the database, or correct the URL and its rights";
    return { findings: [{ level: "fail", subject, detail, remedy }] };
  }
  const findings: Finding[] = [];
  const { rows } = await sql<{ now: string; version: string }>`
    select (extract(epoch from clock_timestamp()) * 1000)::bigint as now, version() as version`.execute(store.db);
  findings.push({ level: "ok", subject, detail: (rows[0]?.version ?? "").split(" ").slice(0, 2).join(" ") });
  const skewSec = Math.round(Math.abs(nowMs() - Number(rows[0]?.now ?? 0)) / 1_000);
  if (skewSec > SKEW_SEC) {
    const detail = `its clock and this machine's differ by ${skewSec} s`;
    findings.push({ level: "warn", subject, detail, remedy: "keep both by NTP: leases are by the database's clock" });
  }
  if (config.database.kind === "postgres") findings.push(...(await examineConnection(config.database, store.db)));
  const pending = await pendingMigrations(store.db).catch((error: unknown) => {
    if (!isTurnpikeError(error) || error.code !== "ConfigError") throw error;
    return error;
  });
  if ("message" in pending) {
    findings.push({ level: "fail", subject, detail: String(pending.details.detail), remedy: NEWER_REMEDY });
    await store.close();
    return { findings };
  }
  if (pending.length > 0) {
    const detail = `${pending.length} migrations are to be applied: ${pending.map(({ id }) => id).join(", ")}`;
    const isBreaking = config.database.kind === "postgres" && pending.some((one) => one.isBreaking);
    findings.push({ level: "fail", subject, detail, remedy: isBreaking ? STOP_FIRST : "run `migrate`" });
    return { findings, store };
  }
  findings.push({ level: "ok", subject, detail: "is migrated" });
  const foreign = await foreignContracts(store.db, config);
  if (foreign) findings.push({ level: "fail", subject, detail: foreign, remedy: FOREIGN_REMEDY });
  const newest = await newestBlock(store.db, config.chainId);
  findings.push({
    level: "ok",
    subject,
    detail: newest ? `has read the chain to block ${newest.number}` : "has not read the chain yet",
  });
  return { findings, store };
}
