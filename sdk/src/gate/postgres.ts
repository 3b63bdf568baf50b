/** Stores in PostgreSQL, for gates on several machines: `createProvider({ claims: postgresClaims(pool), meterStore: postgresMeter(pool) })`. */

import { sharedClaims } from "./claims/in-cells";
import type { ClaimStore } from "./claims/rules";
import { sharedMeterStore } from "./metering/shared-store";
import type { MeterStore } from "./metering/store";
import { type PostgresClient, postgresCells } from "./shared/postgres-cells";

export { POSTGRES_SCHEMA, type PostgresClient } from "./shared/postgres-cells";

/** Which PostgreSQL, and in which table. */
export interface PostgresStoreOptions {
  /** tells several providers in one database apart; default "claims", "meter" */
  readonly space?: string;
}

/**
 * Claims in PostgreSQL 13 or later; makes its table on first use.
 * @param client a pool (or client) of `pg`; it stays yours to close
 */
export function postgresClaims(client: PostgresClient, { space = "claims" }: PostgresStoreOptions = {}): ClaimStore {
  return sharedClaims(postgresCells(client, { space }));
}

/**
 * What metered subscriptions owe, in PostgreSQL 13 or later: one space per operator key.
 * @param client a pool (or client) of `pg`; it stays yours to close
 */
export function postgresMeter(client: PostgresClient, { space = "meter" }: PostgresStoreOptions = {}): MeterStore {
  return sharedMeterStore(postgresCells(client, { space }));
}
