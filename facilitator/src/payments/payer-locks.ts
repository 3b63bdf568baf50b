/**
 * Orders statements that take from a payer's balance: one process at a time, and one payment of a payer after another, so
 * that each statement sees what the earlier ones take.
 */
import { sql } from "kysely";
import type { Tx } from "../db/open";
import { idList } from "../db/sql";
import type { Acceptance, Binding } from "./payment-request";

const payerOf = ({ request }: Acceptance): string => `${request.token.address}/${request.authorization.from}`;

export const countPayers = (acceptances: readonly Acceptance[]): number => new Set(acceptances.map(payerOf)).size;

/**
 * Locks the payers until the transaction ends, so that no other process binds their payments against the same balance.
 */
export async function lockPayers(tx: Tx, acceptances: readonly Acceptance[]): Promise<void> {
  const payers = [...new Set(acceptances.map(payerOf))].sort();
  await sql`select pg_advisory_xact_lock(hashtextextended(payer, 0))
    from unnest(${idList(payers)}) with ordinality as p(payer, place) order by place`.execute(tx);
}

/**
 * Binds several payments of one payer in sequence.
 * @param bindDistinct binds payments of different payers in one statement
 */
export async function bindInTurn(
  acceptances: readonly Acceptance[],
  bindDistinct: (distinct: readonly Acceptance[]) => Promise<readonly Binding[]>,
): Promise<Binding[]> {
  const bindings: Binding[] = new Array(acceptances.length);
  let rest = acceptances.map((acceptance, place) => ({ acceptance, place }));
  while (rest.length > 0) {
    const seen = new Set<string>();
    const first = rest.filter(({ acceptance }) => !seen.has(payerOf(acceptance)) && seen.add(payerOf(acceptance)));
    const bound = await bindDistinct(first.map(({ acceptance }) => acceptance));
    first.forEach(({ place }, index) => {
      bindings[place] = bound[index] as Binding;
    });
    const taken = new Set(first);
    rest = rest.filter((each) => !taken.has(each));
  }
  return bindings;
}
