/** Finds payments whose validity window has ended in a final block. */
import type { Logger } from "pino";
import { tokenInterface } from "turnpike/chain";
import type { Address, Hex } from "turnpike/protocol";
import type { ChainReader } from "../chain/chain-reader";
import type { Store } from "../db/open";

const AT_ONCE = 500;

/**
 * Returns the payments that had to be mined before block `finalNumber` and were not. Checks the nonce on the chain: a
 * node that withheld a log must not make a payment `failed` whose money moved.
 */
export async function findExpired(
  { store, chain, log, chainId }: { store: Store; chain: ChainReader; log: Logger; chainId: number },
  finalNumber: number,
): Promise<Hex[]> {
  const rows = await store.db
    .selectFrom("payments")
    .select(["payment_id", "token", "payer", "nonce"])
    .where("chain_id", "=", chainId)
    .where("state", "in", ["queued", "sent", "parked"])
    .where("valid_before", "<=", (eb) =>
      eb.selectFrom("blocks").select("timestamp").where("chain_id", "=", chainId).where("number", "=", finalNumber),
    )
    .limit(AT_ONCE)
    .execute();
  const unused = await Promise.all(
    rows.map(async (row) => {
      const data = tokenInterface.encodeFunctionData("authorizationState", [row.payer, row.nonce]) as Hex;
      const answer = await chain.call({ to: row.token as Address, data });
      const isUnused = answer.kind === "ok" && /^0x0{64}$/.test(answer.data);
      if (!isUnused)
        log.error(
          { paymentId: row.payment_id },
          "an expired payment's nonce is used, but no log shows which transaction used it",
        );
      return isUnused;
    }),
  );
  return rows.filter((_, index) => unused[index]).map((row) => row.payment_id as Hex);
}
