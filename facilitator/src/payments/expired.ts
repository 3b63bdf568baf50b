/** Finds payments whose validity window has ended in a final block. */
import type { Logger } from "pino";
import type { Address, Hex } from "turnpike/protocol";
import { isUsed, type NonceQuery, nonceCallOf } from "../chain/account-reads";
import type { ChainReader } from "../chain/chain-reader";
import type { Store } from "../db/open";
import type { PaymentRow } from "../db/tables/payments";
import { findPermit2Evidence } from "./permit2-evidence";

const AT_ONCE = 500;

/** How long the transfer of a used Permit2 nonce is searched after the deadline, seconds. */
const SEARCHED_SEC = 3_600;

interface Search {
  readonly store: Store;
  readonly chain: ChainReader;
  readonly log: Logger;
  readonly chainId: number;
}

/**
 * Returns the payments that had to be mined before block `finalNumber` and were not. Checks the nonce on the chain: a
 * node that withheld a log must not make a payment `failed` whose money moved. The payer may spend a Permit2 nonce on
 * anything, without a log: such a payment fails once no transfer of it shows for an hour.
 */
export async function findExpired(search: Search, finalNumber: number): Promise<Hex[]> {
  const { store, chainId } = search;
  const final = await store.db
    .selectFrom("blocks")
    .select("timestamp")
    .where("chain_id", "=", chainId)
    .where("number", "=", finalNumber)
    .executeTakeFirst();
  if (!final) return [];
  const found: Hex[] = [];
  for (let after = ""; ; ) {
    const rows = await store.db
      .selectFrom("payments")
      .select(["payment_id", "token", "payer", "pay_to", "amount", "nonce", "method", "accepted_block", "valid_before"])
      .where("chain_id", "=", chainId)
      .where("state", "in", ["queued", "sent", "parked"])
      .where("valid_before", "<=", final.timestamp)
      .where("payment_id", ">", after)
      .orderBy("payment_id")
      .limit(AT_ONCE)
      .execute();
    const unmoved = await Promise.all(
      rows.map((row) => isUnmoved(search, row, { number: finalNumber, timeSec: final.timestamp })),
    );
    found.push(...rows.filter((_, index) => unmoved[index]).map((row) => row.payment_id as Hex));
    const last = rows.at(-1);
    if (!last || rows.length < AT_ONCE) return found;
    after = last.payment_id;
  }
}

type ExpiredRow = Pick<
  PaymentRow,
  "payment_id" | "token" | "payer" | "pay_to" | "amount" | "nonce" | "method" | "accepted_block" | "valid_before"
>;

async function isUnmoved(
  { chain, log }: Search,
  row: ExpiredRow,
  final: { readonly number: number; readonly timeSec: number },
): Promise<boolean> {
  const isPermit2 = row.method !== "eip3009";
  const query = { token: row.token as Address, payer: row.payer as Address, nonce: row.nonce as Hex, isPermit2 };
  if (await isUnused(chain, query)) return true;
  if (isPermit2) {
    if (final.timeSec < row.valid_before + SEARCHED_SEC) return false;
    if ((await findPermit2Evidence(chain, row, final.number)).kind === "none") return true;
  }
  log.error(
    { paymentId: row.payment_id },
    "an expired payment's nonce is used, but no log shows which transaction used it",
  );
  return false;
}

/**
 * Returns whether the chain shows the nonce as unused. Every node is asked: the first may be wrong about the logs and
 * about this, and what is failed here stays failed.
 */
async function isUnused(chain: ChainReader, query: NonceQuery): Promise<boolean> {
  const call = nonceCallOf(query);
  const answer = await chain.call(call);
  if (answer.kind !== "ok" || answer.data.length !== 66 || isUsed(query, BigInt(answer.data))) return false;
  const answers = await chain.callOfEach(call);
  return answers.every((data) => data.length !== 66 || !isUsed(query, BigInt(data)));
}
