/**
 * Fills a gap: an unused nonce below this key's transactions, which all wait behind it. A gap arises when a node lied
 * about the nonce and a transaction was marked displaced, or when the adopted nonce was too high.
 */
import type { Address } from "turnpike/protocol";
import type { Store, Tx } from "../db/open";
import { databaseNowMs } from "../db/sql";
import type { LeaseKey } from "./lease";

const FILL_GAS = 21_000;

/**
 * Reopens displaced transactions in the gap, and inserts an empty transfer to the own address for each missing nonce.
 * @returns the filled nonces
 */
export async function closeGap(
  store: Store,
  of: LeaseKey,
  epoch: number,
  { from, below }: { readonly from: number; readonly below: number },
): Promise<number[]> {
  return store.transaction(async (tx) => {
    const held = await tx
      .selectFrom("lanes")
      .select("lease_epoch")
      .where("chain_id", "=", of.chainId)
      .where("key", "=", of.key)
      .where("lease_epoch", "=", epoch)
      .forUpdate()
      .executeTakeFirst();
    if (!held) return [];
    const rows = await tx
      .selectFrom("transactions")
      .select(["id", "nonce", "status"])
      .where("chain_id", "=", of.chainId)
      .where("key", "=", of.key)
      .where("nonce", ">=", from)
      .where("nonce", "<", below)
      .execute();
    // The row says mined. If its block was reverted, `unmineTransactions` reopens it.
    if (rows.some(({ status }) => status === "mined")) return [];
    const givenUp = rows.filter(({ status }) => status === "displaced").map(({ id }) => id);
    if (givenUp.length > 0)
      await tx.updateTable("transactions").set({ status: "stored" }).where("id", "in", givenUp).execute();
    const known = new Set(rows.map(({ nonce }) => nonce));
    const missing = Array.from({ length: below - from }, (_, index) => from + index).filter(
      (nonce) => !known.has(nonce),
    );
    for (const nonce of missing) await insertNothing(tx, of, epoch, nonce);
    return [
      ...rows.flatMap(({ nonce, status }) => (status === "displaced" && nonce !== null ? [nonce] : [])),
      ...missing,
    ];
  });
}

/** Inserted without a signed form: the lane signs one, as it does for a higher fee. */
async function insertNothing(tx: Tx, of: LeaseKey, epoch: number, nonce: number): Promise<void> {
  const id = `gap/${of.chainId}/${of.key}/${nonce}`;
  await tx
    .insertInto("transactions")
    .values({
      id,
      chain_id: of.chainId,
      purpose: "gap",
      idempotency_key: id,
      to_address: of.key as Address,
      data: "0x",
      gas_limit: FILL_GAS,
      status: "stored",
      created_at_ms: databaseNowMs,
      stored_at_ms: databaseNowMs,
      key: of.key,
      nonce,
      epoch,
    })
    .execute();
}
