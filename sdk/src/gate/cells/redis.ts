/** Stores cells in Redis: one script changes several keys atomically. Knows no client library, only its shape. */
import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { ConfigError } from "../../protocol/errors";
import { randomBytes, toHex } from "../../protocol/hex";
import { type AtomicStore, answerKey, SWAP_WAIT_MS, type SwapResult } from "./cells";
import { linkOf, type RedisClient, type RedisLink, remedyOf, type Send } from "./redis-client";

export interface RedisCellsOptions {
  /** before every key; on a cluster with a {hash tag} where cells are listed */
  readonly prefix: string;
  /** whether cells are ever listed */
  readonly lists: boolean;
}

// ARGV: number of cells, until when (unix ms), how long a change is remembered (ms), then per cell: is something
// expected, what, the new text, milliseconds to keep ("" as before), listed ("1", "0", or "" as before).
// KEYS: the cells; then, if cells are listed, the set of listed ones and what remembers this change.
const SWAP = `
local count = tonumber(ARGV[1])
local made = KEYS[count + 2]
if made and redis.call('EXISTS', made) == 1 then return 1 end
local time = redis.call('TIME')
if time[1] * 1000 + time[2] / 1000 > tonumber(ARGV[2]) then return -1 end
for i = 1, count do
  local at = 4 + (i - 1) * 5
  local current = redis.call('GET', KEYS[i])
  if ARGV[at] == '1' then
    if current ~= ARGV[at + 1] then return 0 end
  elseif current then return 0 end
end
for i = 1, count do
  local at = 4 + (i - 1) * 5
  if ARGV[at + 3] ~= '' then redis.call('SET', KEYS[i], ARGV[at + 2], 'PX', ARGV[at + 3])
  else redis.call('SET', KEYS[i], ARGV[at + 2], 'KEEPTTL') end
  if ARGV[at + 4] == '1' then redis.call('SADD', KEYS[count + 1], KEYS[i])
  elseif ARGV[at + 4] == '0' then redis.call('SREM', KEYS[count + 1], KEYS[i]) end
end
if made then redis.call('SET', made, '', 'PX', ARGV[3]) end
return 1`;

const RESULTS: Readonly<Record<string, SwapResult>> = { "1": "made", "0": "differs", "-1": "late" };

/** Redis's name of the script. */
const SWAP_HASH = createHash("sha1").update(SWAP).digest("hex");

/** How long a replica is waited for: within the time of any answer. */
const REPLICA_WAIT_MS = 3_000;

const REPLICA_POLL_MS = 50;

const CLOCK = "return redis.call('TIME')";

const NO_FILE =
  "Turnpike: Redis writes no append-only file (appendonly no). What a restart loses can be bought once more, or is never debited.";

const text = (reply: unknown): string | undefined =>
  reply === null || reply === undefined ? undefined : String(reply);

/** @returns what a server says of itself; undefined where it refuses to */
async function infoOf(send: Send, ...section: string[]): Promise<string | undefined> {
  try {
    return String(await send("INFO", ...section));
  } catch (error) {
    // A managed server may refuse this command: the guide says what it must be set to.
    if (error instanceof Error && /^(?:ERR|NOPERM) /.test(error.message)) return undefined;
    throw error;
  }
}

const settingOf = (info: string | undefined, name: string): string | undefined =>
  new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info ?? "")?.[1];

/** @returns how far its replicas are, in bytes; one that is not in step yet is nowhere */
function replicasOf(info: string | undefined): number[] {
  const lines = info?.match(/^slave\d+:.*$/gm) ?? [];
  return lines.map((line) => (line.includes("state=online") ? Number(/offset=(\d+)/.exec(line)?.[1] ?? -1) : -1));
}

/** Replicas report once a second how far they are. */
async function isInStep(send: Send): Promise<boolean> {
  const first = await infoOf(send, "replication");
  const written = Number(settingOf(first, "master_repl_offset"));
  const untilMs = performance.now() + REPLICA_WAIT_MS;
  for (let info = first; ; info = await infoOf(send, "replication")) {
    const replicas = replicasOf(info);
    if (replicas.length === 0 || replicas.some((offset) => offset >= written)) return true;
    if (performance.now() > untilMs) return false;
    await delay(REPLICA_POLL_MS);
  }
}

/** @throws ConfigError for a server that deletes what gates keep when its memory is full */
function requireKept(info: string | undefined): void {
  const policy = settingOf(info, "maxmemory_policy");
  if (policy === undefined || policy === "noeviction" || settingOf(info, "maxmemory") === "0") return;
  throw new ConfigError(
    `Redis deletes claims and charges when its memory is full: maxmemory-policy is ${policy}. Set it to noeviction`,
  );
}

/** @returns what of a key a cluster hashes: what is in its first braces, or all of it */
const hashedOf = (key: string): string => /^[^{]*\{([^}]+)\}/.exec(key)?.[1] ?? key;

/** @throws ConfigError for what a cluster could not change together, or would read late */
function requireTogether({ keyPrefix, readsFrom }: RedisLink, prefix: string, keys: readonly string[]): void {
  const spreads = "spreads what changes together over a Redis Cluster";
  if (keyPrefix !== "") {
    throw new ConfigError(
      `keyPrefix "${keyPrefix}" of the client ${spreads}: leave it out, and set the store's own prefix`,
    );
  }
  if (readsFrom !== "master") {
    throw new ConfigError(`scaleReads of the client is "${readsFrom}", but replicas lag: set it to "master"`);
  }
  if (new Set(keys.map(hashedOf)).size === 1) return;
  const remedy = /[{}]/.test(prefix)
    ? "leave the braces out"
    : `put it in braces, as in "{${prefix.replace(/:$/, "")}}:"`;
  throw new ConfigError(`prefix "${prefix}" ${spreads}: ${remedy}`);
}

export function redisCells(client: RedisClient, { prefix, lists }: RedisCellsOptions): AtomicStore {
  const link = linkOf(client);
  const listKey = `${prefix}listed`;
  /** Returns a cell's Redis key. A cluster hashes what is in braces, so `a@b` goes to the slot of `b`. */
  const nameOf = (key: string): string => {
    const at = key.indexOf("@");
    return at < 0 ? prefix + key : `${prefix}${key.slice(0, at)}@{${prefix}${key.slice(at + 1)}}`;
  };
  const read = async (keys: readonly string[]): Promise<(string | undefined)[]> => {
    const [first] = keys;
    if (first === undefined) return [];
    return ((await link.send(first, "MGET", ...keys)) as unknown[]).map(text);
  };

  async function runSwap(key: string, args: string[]): Promise<unknown> {
    try {
      return await link.send(key, "EVALSHA", SWAP_HASH, ...args);
    } catch (error) {
      // The server does not know the script yet, or was restarted: nothing was done.
      if (!/NOSCRIPT/.test(String(error))) throw error;
      return link.send(key, "EVAL", SWAP, ...args);
    }
  }

  return {
    async open() {
      if (link.isCluster) {
        requireTogether(link, prefix, lists ? [listKey, nameOf("a")] : [nameOf("a"), nameOf(answerKey("a"))]);
      }
      const infos = await Promise.all((await link.masters()).map((send) => infoOf(send)));
      if (!link.isCluster && infos.some((info) => settingOf(info, "cluster_enabled") === "1")) {
        throw new ConfigError(
          "client is of one server, but this Redis is a cluster: use `new Cluster(...)` of ioredis, or `createCluster(...)` of redis",
        );
      }
      infos.forEach(requireKept);
      if (infos.some((info) => settingOf(info, "aof_enabled") === "0")) process.emitWarning(NO_FILE);
    },
    async nowMs() {
      // Of one node in a cluster, the same for every gate.
      const key = `${prefix}clock`;
      const [sec, micros] = (await link.send(key, "EVAL", CLOCK, "1", key)) as unknown[];
      return Number(String(sec)) * 1_000 + Math.floor(Number(String(micros)) / 1_000);
    },
    read: (keys) => read(keys.map(nameOf)),
    async compareAndSwap(changes, untilMs) {
      const keys = changes.map(({ key }) => nameOf(key));
      // A client that reconnects may send the script again: ioredis does. A claim names its owner; a charge is one of
      // many equal ones, so it is remembered.
      if (lists) keys.push(listKey, `${prefix}made:${toHex(randomBytes(16)).slice(2)}`);
      const args = changes.flatMap(({ expected, next, keepSec, listed }) => [
        expected === undefined ? "0" : "1",
        expected ?? "",
        next,
        keepSec === undefined ? "" : String(Math.max(1, Math.ceil(keepSec)) * 1_000),
        listed === undefined ? "" : listed ? "1" : "0",
      ]);
      const head = [changes.length, untilMs, 2 * SWAP_WAIT_MS].map(String);
      const result = await runSwap(keys[0] as string, [String(keys.length), ...keys, ...head, ...args]);
      return RESULTS[String(result)] ?? "differs";
    },
    async listed() {
      const members = (await link.send(listKey, "SMEMBERS", listKey)) as unknown[];
      // The script lists keys as the server knows them; the client puts its own prefix before each that it sends.
      const keys = members.map((member) => String(member).slice(link.keyPrefix.length));
      const texts = await read(keys);
      return keys.flatMap((key, i) => {
        const found = texts[i];
        return found === undefined ? [] : [{ key: key.slice(prefix.length), text: found }];
      });
    },
    async isReplicated() {
      return (await Promise.all((await link.masters()).map(isInStep))).every(Boolean);
    },
    remedyOf,
  };
}
