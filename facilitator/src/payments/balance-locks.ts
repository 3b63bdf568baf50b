/**
 * Orders statements that take from a payer's balance: one process at a time, and one payment of a payer after another, so
 * that each statement sees what the earlier ones take.
 */
import { sql } from "kysely";
import type { Store, Tx } from "../db/open";
import { idList } from "../db/sql";
import type { Acceptance } from "./payment-request";

/** Identifies a payer's balance in a token. */
export const balanceKey = (token: string, payer: string): string => `${token}/${payer}`;

export const balanceOf = ({ request }: Acceptance): string =>
  balanceKey(request.token.address, request.authorization.from);

/**
 * Locks balances until the transaction ends, so that no other process binds payments against them. The embedded database
 * has one connection and needs no locks.
 */
export async function lockBalances({ kind }: Store, tx: Tx, keys: Iterable<string>): Promise<void> {
  if (kind !== "postgres") return;
  const distinct = [...new Set(keys)].sort();
  await sql`select pg_advisory_xact_lock(hashtextextended(balance, 0))
    from unnest(${idList(distinct)}) with ordinality as b(balance, place) order by place`.execute(tx);
}

/**
 * Binds several payments of one payer in sequence.
 * @param bindDistinct binds payments of different payers in one statement
 */
export async function bindInTurn<B>(
  acceptances: readonly Acceptance[],
  bindDistinct: (distinct: readonly Acceptance[]) => Promise<readonly B[]>,
): Promise<B[]> {
  const bindings: B[] = new Array(acceptances.length);
  let rest = acceptances.map((acceptance, place) => ({ acceptance, place }));
  while (rest.length > 0) {
    const seen = new Set<string>();
    const first = rest.filter(({ acceptance }) => !seen.has(balanceOf(acceptance)) && seen.add(balanceOf(acceptance)));
    const bound = await bindDistinct(first.map(({ acceptance }) => acceptance));
    first.forEach(({ place }, index) => {
      bindings[place] = bound[index] as B;
    });
    const taken = new Set(first);
    rest = rest.filter((each) => !taken.has(each));
  }
  return bindings;
}
