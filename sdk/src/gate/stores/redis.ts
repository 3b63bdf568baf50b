/** Stores cells in Redis: one script changes several keys atomically. Knows no client library, only its shape. */
import type { AtomicStore } from "./atomic-store";

/** A client of `ioredis` (`call`) or of `redis` (`sendCommand`), connected by the caller. */
export type RedisClient =
  | {
      /** Sends one command, as ioredis does. */
      call(command: string, ...args: string[]): Promise<unknown>;
    }
  | {
      /** Sends one command, as redis does. */
      sendCommand(args: string[]): Promise<unknown>;
    };

export interface RedisCellsOptions {
  /** before every key; on a cluster with a {hash tag} where cells are listed */
  readonly prefix: string;
  /** whether cells are ever listed */
  readonly lists: boolean;
}

// ARGV: number of cells, then per cell: is something expected, what, the new text, milliseconds to keep ("" as before),
// listed ("1", "0", or "" as before). KEYS: the cells, then the set of listed ones if there is one.
const SWAP = `
local count = tonumber(ARGV[1])
for i = 1, count do
  local at = 2 + (i - 1) * 5
  local current = redis.call('GET', KEYS[i])
  if ARGV[at] == '1' then
    if current ~= ARGV[at + 1] then return 0 end
  elseif current then return 0 end
end
for i = 1, count do
  local at = 2 + (i - 1) * 5
  if ARGV[at + 3] ~= '' then redis.call('SET', KEYS[i], ARGV[at + 2], 'PX', ARGV[at + 3])
  else redis.call('SET', KEYS[i], ARGV[at + 2], 'KEEPTTL') end
  if ARGV[at + 4] == '1' then redis.call('SADD', KEYS[count + 1], KEYS[i])
  elseif ARGV[at + 4] == '0' then redis.call('SREM', KEYS[count + 1], KEYS[i]) end
end
return 1`;

export function redisCells(client: RedisClient, { prefix, lists }: RedisCellsOptions): AtomicStore {
  const send = (command: string, ...args: string[]): Promise<unknown> =>
    "call" in client ? client.call(command, ...args) : client.sendCommand([command, ...args]);
  const listKey = `${prefix}listed`;
  /** Returns a cell's Redis key. A cluster hashes what is in braces, so `a@b` goes to the slot of `b`. */
  const nameOf = (key: string): string => {
    const at = key.indexOf("@");
    return at < 0 ? prefix + key : `${prefix}${key.slice(0, at)}@{${prefix}${key.slice(at + 1)}}`;
  };
  const read = async (keys: readonly string[]): Promise<(string | undefined)[]> => {
    if (keys.length === 0) return [];
    const texts = (await send("MGET", ...keys)) as (string | null)[];
    return texts.map((text) => text ?? undefined);
  };
  let hash: Promise<string> | undefined;

  async function runSwap(args: string[]): Promise<unknown> {
    hash ??= send("SCRIPT", "LOAD", SWAP).then(String);
    hash.catch(() => {
      hash = undefined;
    });
    try {
      return await send("EVALSHA", await hash, ...args);
    } catch (error) {
      // The server was restarted and has lost the script: nothing was done.
      if (!/NOSCRIPT/.test(String(error))) throw error;
      return send("EVAL", SWAP, ...args);
    }
  }

  return {
    open: async () => undefined,
    async nowMs() {
      const [sec, micros] = (await send("TIME")) as [string, string];
      return Number(sec) * 1_000 + Math.floor(Number(micros) / 1_000);
    },
    read: (keys) => read(keys.map(nameOf)),
    async compareAndSwap(changes) {
      const keys = changes.map(({ key }) => nameOf(key));
      if (lists) keys.push(listKey);
      const args = changes.flatMap(({ expected, next, keepSec, listed }) => [
        expected === undefined ? "0" : "1",
        expected ?? "",
        next,
        keepSec === undefined ? "" : String(Math.max(1, Math.ceil(keepSec)) * 1_000),
        listed === undefined ? "" : listed ? "1" : "0",
      ]);
      return Number(await runSwap([String(keys.length), ...keys, String(changes.length), ...args])) === 1;
    },
    async listed() {
      const keys = (await send("SMEMBERS", listKey)) as string[];
      const texts = await read(keys);
      return keys.flatMap((key, i) => {
        const text = texts[i];
        return text === undefined ? [] : [{ key: key.slice(prefix.length), text }];
      });
    },
  };
}
