/**
 * Fills a gap: an unused nonce below this key's transactions, which all wait behind it. A gap arises when a node lied
 * about the nonce and a transaction was marked displaced, or when the adopted nonce was too high.
 */
import type { Logger } from "pino";
import type { Address } from "turnpike/protocol";
import type { Store, Tx } from "../db/open";
import { databaseNowMs } from "../db/sql";
import type { LeaseKey } from "./lease";

export interface GapWatchOptions {
  readonly store: Store;
  readonly of: LeaseKey;
  readonly log: Logger;
  readonly monotonicMs: () => number;
  /** how long a gap may be a lagging node's */
  readonly patienceMs: number;
}

const FILL_GAS = 21_000;

/** Knows since when there is a gap, and closes it after giving a lagging node time. */
export class GapWatch {
  readonly #options: GapWatchOptions;
  #sinceMs: number | undefined;

  constructor(options: GapWatchOptions) {
    this.#options = options;
  }

  /**
   * Closes a gap that has been there for long enough.
   * @param from the chain's nonce
   * @param below the first nonce of a stored transaction
   * @param epoch of the lane's lease; undefined when it is lost
   */
  async check(from: number, below: number, epoch: number | undefined): Promise<void> {
    const { store, of, log, monotonicMs, patienceMs } = this.#options;
    if (from >= below || epoch === undefined) {
      this.#sinceMs = undefined;
      return;
    }
    this.#sinceMs ??= monotonicMs();
    if (monotonicMs() - this.#sinceMs <= patienceMs) return;
    const filled = await closeGap(store, of, epoch, { from, below });
    if (filled.length === 0) return;
    this.#sinceMs = undefined;
    log.error({ key: of.key, nonces: filled }, "nonces below this key's transactions were never used; filling them");
    store.notifier.notify("lane");
  }
}

/**
 * Reopens displaced transactions in the gap, and inserts an empty transfer to the own address for each missing nonce.
 * @returns the filled nonces
 */
async function closeGap(
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
