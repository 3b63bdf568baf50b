/**
 * Whose rows a caller may see. A wallet with a key has the same owner on every chain; a contract's address may belong to
 * somebody else on another one, so what it signed counts on its own chain alone.
 */
import { type RawBuilder, type SqlBool, sql } from "kysely";
import { intList } from "./sql";

export interface Owner {
  readonly provider: string;
  /** chains that it was identified on */
  readonly chainIds: readonly number[];
}

/** Matches the rows of these chains, and those that every chain shares. @param table its name or alias */
export const onChains = (table: string, chainIds: readonly number[]): RawBuilder<SqlBool> =>
  sql`(${sql.ref(`${table}.every_chain`)} or ${sql.ref(`${table}.chain_id`)} = any(${intList(chainIds)}))`;
