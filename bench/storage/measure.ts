/** Measures what the tables and indexes of payments take on disk. */
import type { Client } from "pg";

export interface TableSize {
  readonly table: Growing;
  readonly rows: number;
  /** average of the columns' values, without long values that are stored apart */
  readonly rowBytes: number;
  readonly heapBytes: number;
  /** of values that are too long for their row */
  readonly longBytes: number;
  readonly indexBytes: Readonly<Record<string, number>>;
}

/** Tables that get rows with every payment. */
export const GROWING = [
  "payments",
  "payment_grants",
  "events",
  "transactions",
  "transaction_hashes",
  "webhook_deliveries",
  "webhook_attempts",
] as const;

export type Growing = (typeof GROWING)[number];

/** Vacuums first, as autovacuum does: dead rows count only where their space cannot be used again. */
export async function sizesOf(client: Client): Promise<TableSize[]> {
  const sizes: TableSize[] = [];
  for (const table of GROWING) {
    await client.query(`vacuum analyze ${table}`);
    const { rows } = await client.query<{ rows: string; width: number | null; heap: string; long: string }>(
      `select (select count(*) from ${table}) as rows, (select avg(pg_column_size(t.*))::float8 from ${table} t) as width,
        pg_relation_size(c.oid) as heap, coalesce(pg_total_relation_size(nullif(c.reltoastrelid, 0)), 0) as long
      from pg_class c where c.oid = '${table}'::regclass`,
    );
    const { rows: indexes } = await client.query<{ name: string; bytes: string }>(
      `select i.indexrelid::regclass::text as name, pg_relation_size(i.indexrelid) as bytes
      from pg_index i where i.indrelid = '${table}'::regclass order by 2 desc`,
    );
    sizes.push({
      table,
      rows: Number(rows[0]?.rows),
      rowBytes: Math.round(rows[0]?.width ?? 0),
      heapBytes: Number(rows[0]?.heap),
      longBytes: Number(rows[0]?.long),
      indexBytes: Object.fromEntries(indexes.map(({ name, bytes }) => [name, Number(bytes)])),
    });
  }
  return sizes;
}

export const totalBytes = ({ heapBytes, longBytes, indexBytes }: TableSize): number =>
  heapBytes + longBytes + Object.values(indexBytes).reduce((sum, bytes) => sum + bytes, 0);

/** Returns the bytes of tables with their indexes. */
export async function bytesOf(client: Client, tables: readonly string[]): Promise<number> {
  const { rows } = await client.query<{ bytes: string }>(
    "select sum(pg_total_relation_size(name::regclass)) as bytes from unnest($1::text[]) name",
    [tables],
  );
  return Number(rows[0]?.bytes);
}
