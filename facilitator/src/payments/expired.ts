/** Finds payments whose validity window has ended in a final block. */
import type { Logger } from "pino";
import type { Address, Hex } from "turnpike/protocol";
import { isUsed, nonceCallOf } from "../chain/account-reads";
import type { ChainReader } from "../chain/chain-reader";
import type { Store } from "../db/open";
import { findPermit2Evidence } from "./permit2-evidence";

const AT_ONCE = 500;

/**
 * Returns the payments that had to be mined before block `finalNumber` and were not. Checks the nonce on the chain: a
 * node that withheld a log must not make a payment `failed` whose money moved. A used Permit2 nonce is no such sign, so
 * the token's transfers are searched for the payment instead.
 */
export async function findExpired(
  { store, chain, log, chainId }: { store: Store; chain: ChainReader; log: Logger; chainId: number },
  finalNumber: number,
): Promise<Hex[]> {
  const rows = await store.db
    .selectFrom("payments")
    .select(["payment_id", "token", "payer", "pay_to", "amount", "nonce", "method", "accepted_block"])
    .where("chain_id", "=", chainId)
    .where("state", "in", ["queued", "sent", "parked"])
    .where("valid_before", "<=", (eb) =>
      eb.selectFrom("blocks").select("timestamp").where("chain_id", "=", chainId).where("number", "=", finalNumber),
    )
    .limit(AT_ONCE)
    .execute();
  const unmoved = await Promise.all(
    rows.map(async (row) => {
      const { token, payer, nonce, method } = row as typeof row & { token: Address; payer: Address; nonce: Hex };
      const isPermit2 = method !== "eip3009";
      const query = { token, payer, nonce, isPermit2 };
      const answer = await chain.call(nonceCallOf(query));
      if (answer.kind === "ok" && answer.data.length === 66 && !isUsed(query, BigInt(answer.data))) return true;
      // The payer may spend a Permit2 nonce on anything, without a log.
      const isUnmoved = isPermit2 && (await findPermit2Evidence(chain, row, finalNumber)).kind === "none";
      if (!isUnmoved)
        log.error(
          { paymentId: row.payment_id },
          "an expired payment's nonce is used, but no log shows which transaction used it",
        );
      return isUnmoved;
    }),
  );
  return rows.filter((_, index) => unmoved[index]).map((row) => row.payment_id as Hex);
}
