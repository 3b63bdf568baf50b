/**
 * Stores in Redis, for gates on several machines: `createProvider({ claims: redisClaims(redis), meterStore:
 * redisMeter(redis) })`.
 */
import { aText, optionsOf } from "../protocol/arguments";
import { cellsOn } from "./cells/cells";
import { redisCells } from "./cells/redis";
import type { RedisClient } from "./cells/redis-client";
import { METER_STORE, sharedMeterStore } from "./metering/shared-store";
import type { MeterStore } from "./metering/store";
import type { ClaimStore } from "./purchases/record";
import { CLAIM_STORE, claimsOn } from "./purchases/store";

export type { RedisClient } from "./cells/redis-client";

/** Which Redis, and under which prefix. */
export interface RedisStoreOptions {
  /** before every key; default "turnpike:claim:", "{turnpike:meter}:" */
  readonly prefix?: string;
}

const checkOptions = optionsOf<RedisStoreOptions>({ prefix: aText });

/**
 * Claims in Redis 6 or later. What Redis forgets can be bought once more: keep it with appendfsync and noeviction.
 * @param client of `ioredis` or `redis`, connected; it stays yours to close
 * @throws ConfigError for what is no such client
 */
export function redisClaims(client: RedisClient, options: RedisStoreOptions = {}): ClaimStore {
  checkOptions(options, "");
  const { prefix = "turnpike:claim:" } = options;
  return claimsOn(cellsOn(redisCells(client, { prefix, lists: false }), { what: CLAIM_STORE }));
}

/**
 * What metered subscriptions owe, in Redis 6 or later: one per operator key. What Redis forgets is never debited.
 * @param client of `ioredis` or `redis`, connected; it stays yours to close
 * @throws ConfigError for what is no such client
 */
export function redisMeter(client: RedisClient, options: RedisStoreOptions = {}): MeterStore {
  checkOptions(options, "");
  const { prefix = "{turnpike:meter}:" } = options;
  return sharedMeterStore(cellsOn(redisCells(client, { prefix, lists: true }), { what: METER_STORE }));
}
