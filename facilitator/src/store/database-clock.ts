/** The database's clock, which all processes that share it agree on; for leases and ages, never for chain time. */
import { sql } from "kysely";

export const databaseNowMs = sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`;
