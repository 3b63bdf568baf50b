import { sql } from "kysely";
import type { Address, Hex } from "turnpike/protocol";
import type { Db } from "../db/open";
import { databaseNowMs, idList } from "../db/sql";
import type { KnownForm, OpenTransaction, SignedForm, TransactionRow } from "../db/tables/relayer";
import type { Metrics } from "../telemetry/metrics";

export interface QueuedTransaction {
  readonly id: string;
  readonly chainId: number;
  readonly purpose: string;
  readonly idempotencyKey: string;
  readonly to: Address;
  readonly data: Hex;
  readonly gasLimit: bigint;
  /** the only key that may send it; absent: any */
  readonly sender?: Address;
}

/** Queues a transaction. @returns the id of this idempotency key, which is `entry.id` when it is new */
export async function enqueueTransaction(db: Db, entry: QueuedTransaction): Promise<string> {
  const inserted = await db
    .insertInto("transactions")
    .values({
      id: entry.id,
      chain_id: entry.chainId,
      purpose: entry.purpose,
      idempotency_key: entry.idempotencyKey,
      to_address: entry.to,
      data: entry.data,
      gas_limit: Number(entry.gasLimit),
      status: "queued",
      sender: entry.sender ?? null,
      created_at_ms: databaseNowMs,
    })
    .onConflict((conflict) => conflict.columns(["chain_id", "idempotency_key"]).doNothing())
    .returning("id")
    .executeTakeFirst();
  if (inserted) return inserted.id;
  const existing = await db
    .selectFrom("transactions")
    .select("id")
    .where("chain_id", "=", entry.chainId)
    .where("idempotency_key", "=", entry.idempotencyKey)
    .executeTakeFirstOrThrow();
  return existing.id;
}

export interface StoredTransaction extends QueuedTransaction {
  readonly key: Address;
  readonly nonce: number;
  readonly epoch: number;
  readonly form: Omit<SignedForm, "signed_at_ms" | "transaction_id" | "chain_id">;
}

/**
 * Stores transactions that were never queued, each with its signed form, in one statement.
 * @returns the stored forms
 */
export async function storeTransactions(db: Db, entries: readonly StoredTransaction[]): Promise<SignedForm[]> {
  const rows = entries.map(({ form, gasLimit, ...entry }) => ({ ...entry, ...form, gasLimit: Number(gasLimit) }));
  const stored = await sql<{ hash: string; signed_at_ms: number }>`
    with entry as materialized (
      select * from json_to_recordset(${JSON.stringify(rows)}::json) as t(id text, "chainId" bigint, purpose text,
        "idempotencyKey" text, "to" text, data text, "gasLimit" bigint, sender text, key text, nonce bigint, epoch bigint, hash text,
        raw text, max_fee_wei numeric, priority_fee_wei numeric)),
    rows as (
      insert into transactions (id, chain_id, purpose, idempotency_key, to_address, data, gas_limit, status, created_at_ms,
        sender, key, nonce, epoch, stored_at_ms, hash)
      select id, "chainId", purpose, "idempotencyKey", "to", data, "gasLimit", 'stored', ${databaseNowMs}, sender, key, nonce, epoch,
        ${databaseNowMs}, hash from entry order by nonce)
    insert into transaction_hashes (hash, chain_id, transaction_id, raw, max_fee_wei, priority_fee_wei, signed_at_ms)
    select hash, "chainId", id, raw, max_fee_wei, priority_fee_wei, ${databaseNowMs} from entry
    returning hash, signed_at_ms`.execute(db);
  const signedAtMs = new Map(stored.rows.map((row) => [row.hash, row.signed_at_ms]));
  return entries.map(({ form, id, chainId }) => ({
    ...form,
    chain_id: chainId,
    transaction_id: id,
    signed_at_ms: signedAtMs.get(form.hash) ?? 0,
  }));
}

export async function findTransaction(db: Db, id: string): Promise<TransactionRow | undefined> {
  return db.selectFrom("transactions").selectAll().where("id", "=", id).executeTakeFirst();
}

/** Returns signed transactions without a known receipt, in nonce order. */
export async function storedTransactions(db: Db, chainId: number, key: Address): Promise<OpenTransaction[]> {
  return db
    .selectFrom("transactions")
    .select(["id", "purpose", "nonce", "gas_limit", "stored_at_ms"])
    .where("chain_id", "=", chainId)
    .where("key", "=", key)
    .where("is_final", "=", false)
    .where("status", "=", "stored")
    .orderBy("nonce")
    .execute();
}

/** Returns them with every signed form of each, newest first. */
export async function openTransactions(
  db: Db,
  chainId: number,
  key: Address,
): Promise<{ readonly open: OpenTransaction[]; readonly forms: Map<string, KnownForm[]> }> {
  const open = await storedTransactions(db, chainId, key);
  const forms = new Map<string, KnownForm[]>(open.map(({ id }) => [id, []]));
  for (const form of await signedForms(db, [...forms.keys()])) forms.get(form.transaction_id)?.push(form);
  return { open, forms };
}

export async function rawBytesOf(db: Db, hash: string): Promise<string> {
  const query = db.selectFrom("transaction_hashes").select("raw").where("hash", "=", hash);
  return (await query.executeTakeFirstOrThrow()).raw;
}

/** Returns every signed form of the given transactions, newest first. */
export async function signedForms(db: Db, ids: readonly string[]): Promise<KnownForm[]> {
  if (ids.length === 0) return [];
  return db
    .selectFrom("transaction_hashes")
    .select(["hash", "chain_id", "transaction_id", "max_fee_wei", "priority_fee_wei", "signed_at_ms"])
    .where("transaction_id", "in", [...ids])
    .orderBy("signed_at_ms", "desc")
    .execute();
}

/** Reopens transactions that were mined at these heights in a block that is no longer on the chain. */
export async function unmineTransactions(
  tx: Db,
  chainId: number,
  { from, to, hashes }: { readonly from: number; readonly to: number; readonly hashes: readonly string[] },
): Promise<number> {
  let update = tx
    .updateTable("transactions")
    .set({ status: "stored", block_number: null, block_hash: null, success: null, is_final: false })
    .where("chain_id", "=", chainId)
    .where("is_final", "=", false)
    .where("block_number", ">=", from)
    .where("block_number", "<=", to);
  if (hashes.length > 0) update = update.where("block_hash", "not in", [...hashes]);
  return Number((await update.executeTakeFirst()).numUpdatedRows);
}

/**
 * Returns mined transactions whose nonce the chain does not know as used: a reorganisation has removed them, however deep
 * they were.
 * @param chainNonce how many transactions of the key the chain has
 */
export async function lostTransactions(
  db: Db,
  of: { readonly chainId: number; readonly key: string },
  chainNonce: number,
): Promise<{ readonly id: string; readonly is_final: boolean }[]> {
  return db
    .selectFrom("transactions")
    .select(["id", "is_final"])
    .where("chain_id", "=", of.chainId)
    .where("key", "=", of.key)
    .where("status", "=", "mined")
    .where("nonce", ">=", chainNonce)
    .execute();
}

export async function reopenTransactions(db: Db, ids: readonly string[]): Promise<void> {
  await db
    .updateTable("transactions")
    .set({ status: "stored", block_number: null, block_hash: null, success: null, is_final: false })
    .where(sql<boolean>`id = any(${idList(ids)})`)
    .execute();
}

/** Marks transactions that were mined up to a final block. @returns the ids of those not marked before */
export async function finaliseTransactions(tx: Db, chainId: number, upToBlock: number): Promise<string[]> {
  const rows = await tx
    .updateTable("transactions")
    .set({ is_final: true })
    .where("chain_id", "=", chainId)
    .where("is_final", "=", false)
    .where("block_number", "<=", upToBlock)
    .returning("id")
    .execute();
  return rows.map(({ id }) => id);
}

export interface MinedFacts {
  readonly hash: string;
  readonly blockNumber: number;
  readonly blockHash: string;
  readonly success: boolean;
  readonly gasUsed: bigint;
  readonly gasPriceWei: bigint;
}

const minedColumns = (facts: MinedFacts) => ({
  hash: facts.hash,
  block_number: facts.blockNumber,
  block_hash: facts.blockHash,
  success: facts.success,
  gas_used: Number(facts.gasUsed),
  gas_price_wei: facts.gasPriceWei.toString(),
});

export interface MinedTransaction {
  readonly id: string;
  readonly purpose: string;
  readonly success: boolean;
  readonly tookMs: number;
}

export type MiningMetrics = Pick<Metrics, "mined" | "stageTook">;

export function countMined(all: readonly MinedTransaction[], metrics: MiningMetrics | undefined): void {
  for (const { purpose, success, tookMs } of all) {
    metrics?.mined.inc({ purpose, result: success ? "success" : "reverted" });
    if (purpose === "settle") metrics?.stageTook("mine", tookMs);
  }
}

/** @returns the transaction, unless it was recorded before */
export function recordMined(db: Db, id: string, facts: MinedFacts): Promise<MinedTransaction[]> {
  return db
    .updateTable("transactions")
    .set({ status: "mined", ...minedColumns(facts) })
    .where("id", "=", id)
    .where("status", "=", "stored")
    .returning(["id", "purpose", "success", tookMs("transactions").as("tookMs")])
    .$narrowType<{ success: boolean }>()
    .execute();
}

const tookMs = (table: string) =>
  sql<number>`greatest(0, ${databaseNowMs} - coalesce(${sql.ref(`${table}.stored_at_ms`)}, ${databaseNowMs}))`;

/**
 * Records mined transactions in the transaction of the block that is being written.
 * @returns those not recorded before
 */
export async function recordMinedTogether(
  tx: Db,
  chainId: number,
  all: readonly MinedFacts[],
): Promise<MinedTransaction[]> {
  if (all.length === 0) return [];
  const { rows } = await sql<MinedTransaction>`
    update transactions t set status = 'mined', hash = x.hash, block_number = x.block_number, block_hash = x.block_hash,
      success = x.success, gas_used = x.gas_used, gas_price_wei = x.gas_price_wei
    from json_to_recordset(${JSON.stringify(all.map(minedColumns))}::json) as x(hash text, block_number bigint, block_hash text,
      success boolean, gas_used bigint, gas_price_wei numeric)
    join transaction_hashes h on h.hash = x.hash and h.chain_id = ${chainId}::bigint
    where t.id = h.transaction_id and t.status = 'stored'
    returning t.id, t.purpose, t.success, ${tookMs("t")} as "tookMs"`.execute(tx);
  return rows;
}

/** Marks a transaction whose nonce another transaction has used. */
export async function markDisplaced(db: Db, id: string): Promise<void> {
  await db
    .updateTable("transactions")
    .set({ status: "displaced" })
    .where("id", "=", id)
    .where("status", "=", "stored")
    .execute();
}
