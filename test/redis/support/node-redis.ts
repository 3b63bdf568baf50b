/**
 * The package `redis` in each major version, from this folder's own lock. It is loaded by name, so that the project's
 * checks need not have it; of its types only what the suite uses is written down here.
 */
import { createRequire } from "node:module";
import path from "node:path";
import type { RedisClient } from "turnpike/gate/redis";

export const VERSIONS = ["redis-4", "redis-5", "redis-6"] as const;

export type Version = (typeof VERSIONS)[number];

export type NodeRedis = RedisClient & {
  connect(): Promise<unknown>;
  on(event: "error", listener: () => void): unknown;
  disconnect(): unknown;
  destroy?(): unknown;
};

export interface Library {
  createClient(options: object): NodeRedis;
  createClientPool(options: object): NodeRedis;
  createCluster(options: object): NodeRedis;
  createSentinel(options: object): NodeRedis;
  readonly RESP_TYPES: { readonly BLOB_STRING: number };
}

const load = createRequire(path.join(__dirname, "../package.json"));

export const libraryOf = (version: Version): Library => load(version) as Library;

const open: NodeRedis[] = [];

/** Connects a client that `disconnectAll` closes. */
export async function connected(client: NodeRedis): Promise<NodeRedis> {
  client.on("error", () => undefined);
  await client.connect();
  open.push(client);
  return client;
}

export const clientAt = (version: Version, socket: string, options: object = {}): Promise<NodeRedis> =>
  connected(libraryOf(version).createClient({ socket: { path: socket, tls: false }, ...options }));

export async function disconnectAll(): Promise<void> {
  for (const client of open.splice(0)) await (client.destroy ? client.destroy() : client.disconnect());
}
