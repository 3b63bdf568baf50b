/**
 * Prints everything in the database that the chain decides, in one canonical form. Two databases that know the same
 * chain print the same bytes. Requests' own data, the relayer's work, times of observation and sequence numbers are
 * left out.
 */
import { sql } from "kysely";
import type { Db } from "../../db/open";

export interface DumpedRow {
  readonly table: string;
  readonly key: string;
  readonly text: string;
}

interface Dumped {
  readonly table: string;
  readonly key: readonly string[];
  readonly columns: readonly string[];
  readonly where?: string;
}

const PAGE = 2_000;

/** The first day of the month in which the next period of a plan in months ends, UTC. */
const END_MONTH = `date_trunc('month', to_timestamp(s.paid_through) at time zone 'UTC') + make_interval(months => p.months)`;

/** The end of the next period, as nextBoundarySec of the SDK: on the anchor's day or the month's last one. */
const NEXT_BOUNDARY = `case when p.months = 0 then s.paid_through + p.interval_sec else
  extract(epoch from ${END_MONTH})::bigint + s.paid_through % 86400 + 86400 *
    (least(s.anchor_day, extract(day from ${END_MONTH} + interval '1 month' - interval '1 day'))::bigint - 1) end`;

/** Columns in print order. These rows and columns define what "chain-derived" means. */
const DUMPED: readonly Dumped[] = [
  {
    table: "plans",
    key: ["plan_id"],
    columns: [
      "plan_index provider token amount interval_sec months grace_sec pay_to first_provider first_pay_to proposed_pay_to",
      "pay_to_effective_at salt metadata deprecated stopped_at successor",
      "block_number created_at",
    ],
  },
  { table: "operators", key: ["plan_id", "operator"], columns: ["rights"] },
  {
    table: "subscriptions",
    key: ["id_hash"],
    columns: [
      "subscriber plan_id paid_through version paused ending cancelled intro anchor_day until next_plan_id moved_to",
      "block_number created_at transaction",
    ],
  },
  { table: "allowances", key: ["id_hash"], columns: ["cap spent cycle debits"] },
  {
    table: "debits",
    key: ["id_hash", "debit_index"],
    columns: ["amount transaction block_number block_time log_index"],
  },
  {
    table: "renewal_due",
    key: ["id_hash"],
    columns: ["paid_through"],
    // Lapsed and ended rows are left out: a runner removes them only when it next reads them.
    where: `exists (select 1 from subscriptions s join plans p on p.chain_id = s.chain_id and p.plan_id = s.plan_id
      cross join lateral (select max(b.timestamp) as at from blocks b where b.chain_id = s.chain_id) now
      where s.chain_id = renewal_due.chain_id and s.id_hash = renewal_due.id_hash and ${NEXT_BOUNDARY} > now.at
        and (s.until = 0 or greatest(s.paid_through, s.until) > now.at))`,
  },
  {
    table: "payments",
    key: ["payment_id"],
    columns: ["token payer pay_to amount nonce tx_hash block_number block_hash block_time log_index"],
    where: "state = 'settled'",
  },
  {
    table: "events",
    key: ["id"],
    columns: ["type object_id provider payer payload block_number block_hash log_index block_time transaction"],
    where: "log_index is not null and not reverted",
  },
];

/** Prints in order of tables and keys, in pages of rows, so that a large database needs little memory. */
export async function* dumpChainRows(db: Db, chainId: number): AsyncGenerator<DumpedRow> {
  for (const { table, key, columns, where = "true" } of DUMPED) {
    const names = columns.flatMap((line) => line.split(" "));
    const keyText = sql<string>`concat_ws('/', ${sql.join(key.map((column) => sql`${sql.ref(column)}::text`))})`;
    const fields = sql.join([...key, ...names].map((column) => sql.ref(column)));
    let after = "";
    for (;;) {
      const { rows } = await sql<{ dump_key: string } & Record<string, unknown>>`
        select ${keyText} collate "C" as dump_key, ${fields} from ${sql.table(table)}
        where chain_id = ${chainId}::bigint and ${sql.raw(where)} and ${keyText} collate "C" > ${after}::text
        order by ${keyText} collate "C" limit ${PAGE}::int`.execute(db);
      for (const { dump_key, ...row } of rows) {
        yield { table, key: dump_key, text: JSON.stringify([...key, ...names].map((column) => [column, row[column]])) };
      }
      after = rows.at(-1)?.dump_key ?? after;
      if (rows.length < PAGE) break;
    }
  }
}

export async function dumpText(db: Db, chainId: number): Promise<string> {
  const lines: string[] = [];
  for await (const { table, text } of dumpChainRows(db, chainId)) lines.push(`${table} ${text}\n`);
  return lines.join("");
}

export interface Difference {
  readonly table: string;
  readonly key: string;
  readonly ours: string | undefined;
  readonly theirs: string | undefined;
}

export async function* differences(
  ours: AsyncGenerator<DumpedRow>,
  theirs: AsyncGenerator<DumpedRow>,
): AsyncGenerator<Difference> {
  let [mine, other] = await Promise.all([ours.next(), theirs.next()]);
  const placeOf = (row: DumpedRow): number => DUMPED.findIndex(({ table }) => table === row.table);
  while (!mine.done || !other.done) {
    const order = mine.done ? 1 : other.done ? -1 : compare(mine.value, other.value);
    if (order === 0 && !mine.done && !other.done) {
      const { table, key, text } = mine.value;
      if (text !== other.value.text) yield { table, key, ours: text, theirs: other.value.text };
    } else if (order < 0 && !mine.done) {
      yield { table: mine.value.table, key: mine.value.key, ours: mine.value.text, theirs: undefined };
    } else if (!other.done) {
      yield { table: other.value.table, key: other.value.key, ours: undefined, theirs: other.value.text };
    }
    if (order <= 0) mine = await ours.next();
    if (order >= 0) other = await theirs.next();
  }

  function compare(a: DumpedRow, b: DumpedRow): number {
    return placeOf(a) - placeOf(b) || (a.key === b.key ? 0 : a.key < b.key ? -1 : 1);
  }
}
