/**
 * Stores in PostgreSQL, for gates on several machines: `createProvider({ claims: postgresClaims(pool), meterStore:
 * postgresMeter(pool) })`.
 */
import { aText, type OptionCheck, optionsOf, wrongKind } from "../protocol/arguments";
import { cellsOn } from "./cells/cells";
import { type PostgresClient, postgresCells } from "./cells/postgres";
import { METER_STORE, sharedMeterStore } from "./metering/shared-store";
import type { MeterStore } from "./metering/store";
import type { ClaimStore } from "./purchases/record";
import { CLAIM_STORE, claimsOn } from "./purchases/store";

export type { PostgresClient } from "./cells/postgres";
export { POSTGRES_SCHEMA } from "./cells/postgres";

/** Which PostgreSQL, and in which table. */
export interface PostgresStoreOptions {
  /** separates several providers in one database; default "claims", "meter" */
  readonly space?: string;
}

const checkOptions = optionsOf<PostgresStoreOptions>({ space: aText });

const checkClient: OptionCheck = (client, field) => {
  if (typeof (client as PostgresClient | null | undefined)?.query === "function") return;
  throw wrongKind(client, field, "a pool or client of pg, which has query()");
};

/**
 * Claims in PostgreSQL 13 or later; makes its table on first use.
 * @param client a pool (or client) of `pg`; it stays yours to close
 */
export function postgresClaims(client: PostgresClient, options: PostgresStoreOptions = {}): ClaimStore {
  checkClient(client, "client");
  checkOptions(options, "");
  const { space = "claims" } = options;
  return claimsOn(cellsOn(postgresCells(client, { space }), { what: CLAIM_STORE }));
}

/**
 * What metered subscriptions owe, in PostgreSQL 13 or later: one space per operator key.
 * @param client a pool (or client) of `pg`; it stays yours to close
 */
export function postgresMeter(client: PostgresClient, options: PostgresStoreOptions = {}): MeterStore {
  checkClient(client, "client");
  checkOptions(options, "");
  const { space = "meter" } = options;
  return sharedMeterStore(cellsOn(postgresCells(client, { space }), { what: METER_STORE }));
}
