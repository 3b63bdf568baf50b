/**
 * Passes lists as one parameter of a statement: a block may have thousands of values, and drivers encode arrays
 * differently.
 */
import { type ColumnType, type RawBuilder, sql } from "kysely";

/** The database's clock, shared by all processes; for leases and ages, never for chain time. */
export const databaseNowMs = sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`;

/** Writes names as literals, as in the condition of a partial index, which the planner cannot match to parameters. */
export const literals = (names: readonly string[]): RawBuilder<string> =>
  sql.raw(names.map((name) => `'${name}'`).join(", "));

/** Encodes hashes and ids, which need no escaping. */
export const idList = (values: Iterable<string>): RawBuilder<string[]> => sql`${`{${[...values].join(",")}}`}::text[]`;

declare const READ: unique symbol;
declare const WRITTEN: unique symbol;

/** The value of a column of bytes: `0x` and lower-case digits. PostgreSQL would store such a text as its letters. */
type ReadBytes = string & { readonly [READ]: true };

type Bytes = ReadBytes & { readonly [WRITTEN]: true };

/** A column of the type `bytea`, which {@link bytes} writes. */
export type BytesColumn<Null = never> = ColumnType<ReadBytes | Null, Bytes | Null, Bytes | Null>;

/** Encodes hex digits for a column of bytes. */
export const bytes = (hex: string): RawBuilder<Bytes> => sql`decode(substr(${hex}::text, 3), 'hex')`;

/** Converts an SQL expression of hex digits for a column of bytes. */
export const bytesOf = (expression: string): RawBuilder<Bytes> => sql.raw(`decode(substr(${expression}, 3), 'hex')`);

/** Encodes 32-byte hashes for a column of bytes. */
export const bytesList = (values: Iterable<string>): RawBuilder<Bytes[]> =>
  sql`${`{${[...values].map((hex) => `"\\\\x${hex.slice(2)}"`).join(",")}}`}::bytea[]`;

export const textList = (values: readonly string[]): RawBuilder<string[]> => sql`${quoted(values)}::text[]`;

export const intList = (values: readonly number[]): RawBuilder<number[]> =>
  sql`${quoted(values.map(String))}::bigint[]`;

export const amountList = (values: readonly bigint[]): RawBuilder<string[]> =>
  sql`${quoted(values.map(String))}::numeric[]`;

function quoted(values: readonly string[]): string {
  return `{${values.map((value) => `"${value.replaceAll(/["\\]/g, "\\$&")}"`).join(",")}}`;
}
