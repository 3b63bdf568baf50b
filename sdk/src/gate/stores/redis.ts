/** Stores cells in Redis: one script changes several keys atomically. Knows no client library, only its shape. */
import { ConfigError } from "../../protocol/errors";
import { randomBytes, toHex } from "../../protocol/hex";
import { type AtomicStore, SWAP_WAIT_MS, type SwapResult } from "./atomic-store";

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

type Send = (command: string, ...args: string[]) => Promise<unknown>;

/** @returns what the server says of itself; undefined where it refuses to */
async function infoOf(send: Send): Promise<string | undefined> {
  try {
    return String(await send("INFO"));
  } catch (error) {
    // A managed server may refuse this command: the guide says what it must be set to.
    if (error instanceof Error && /^(?:ERR|NOPERM) /.test(error.message)) return undefined;
    throw error;
  }
}

/** @throws ConfigError for a server that deletes what gates keep when its memory is full */
function requireKept(info: string | undefined): void {
  const settingOf = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info ?? "")?.[1];
  const policy = settingOf("maxmemory_policy");
  if (policy !== undefined && policy !== "noeviction" && settingOf("maxmemory") !== "0") {
    throw new ConfigError(
      `Redis deletes claims and charges when its memory is full: maxmemory-policy is ${policy}. Set it to noeviction`,
    );
  }
  if (settingOf("aof_enabled") !== "0") return;
  process.emitWarning(
    "Turnpike: Redis writes no append-only file (appendonly no). What a restart loses can be bought once more, or is never debited.",
  );
}

export function redisCells(client: RedisClient, { prefix, lists }: RedisCellsOptions): AtomicStore {
  const send: Send = (command, ...args) =>
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
    open: async () => requireKept(await infoOf(send)),
    async nowMs() {
      const [sec, micros] = (await send("TIME")) as [string, string];
      return Number(sec) * 1_000 + Math.floor(Number(micros) / 1_000);
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
      const result = await runSwap([String(keys.length), ...keys, ...head, ...args]);
      return RESULTS[String(result)] ?? "differs";
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
