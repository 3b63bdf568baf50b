/**
 * Passes lists as one parameter of a statement: a block may have thousands of values, and drivers encode arrays
 * differently.
 */
import { type RawBuilder, sql } from "kysely";

/** The database's clock, shared by all processes; for leases and ages, never for chain time. */
export const databaseNowMs = sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`;

/** Encodes hashes and ids, which need no escaping. */
export const idList = (values: Iterable<string>): RawBuilder<string[]> => sql`${`{${[...values].join(",")}}`}::text[]`;

export const textList = (values: readonly string[]): RawBuilder<string[]> => sql`${quoted(values)}::text[]`;

export const intList = (values: readonly number[]): RawBuilder<number[]> =>
  sql`${quoted(values.map(String))}::bigint[]`;

export const amountList = (values: readonly bigint[]): RawBuilder<string[]> =>
  sql`${quoted(values.map(String))}::numeric[]`;

function quoted(values: readonly string[]): string {
  return `{${values.map((value) => `"${value.replaceAll(/["\\]/g, "\\$&")}"`).join(",")}}`;
}
