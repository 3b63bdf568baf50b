import { type RawBuilder, sql } from "kysely";
import { amountList, intList, textList } from "../db/sql";
import { type PayerSum, REFUNDS } from "./rollups";

const COLUMNS = sql.raw("chain_id, provider, token, payer, count, amount, refunds, refunded");

const ADDED = sql.raw(`on conflict (chain_id, provider, token, payer) do update set
  count = r.count + excluded.count, amount = r.amount + excluded.amount,
  refunds = r.refunds + excluded.refunds, refunded = r.refunded + excluded.refunded`);

export function addPayers(
  table: "rollup_payers" | "pruned_payers",
  chainId: number,
  payers: readonly PayerSum[],
): RawBuilder<unknown> {
  const paid = sql`coalesce(sum(x.count) filter (where x.kind <> ${REFUNDS}), 0),
    coalesce(sum(x.amount) filter (where x.kind <> ${REFUNDS}), 0)`;
  const refunded = sql`coalesce(sum(x.count) filter (where x.kind = ${REFUNDS}), 0),
    coalesce(sum(x.amount) filter (where x.kind = ${REFUNDS}), 0)`;
  return sql`insert into ${sql.table(table)} as r (${COLUMNS})
    select ${chainId}::bigint, x.provider, x.token, x.payer, ${paid}, ${refunded}
    from unnest(${textList(payers.map((row) => row.provider))}, ${textList(payers.map((row) => row.token))},
      ${textList(payers.map((row) => row.payer))}, ${textList(payers.map((row) => row.kind))},
      ${intList(payers.map((row) => row.count))}, ${amountList(payers.map((row) => row.amount))})
      as x (provider, token, payer, kind, count, amount)
    group by 2, 3, 4 order by 2, 3, 4 ${ADDED}`;
}

/** Adds those of the events that retention deleted. */
export const addPrunedPayers = (chainId: number): RawBuilder<unknown> => sql`insert into rollup_payers as r (${COLUMNS})
  select ${COLUMNS} from pruned_payers where chain_id = ${chainId}::bigint ${ADDED}`;
