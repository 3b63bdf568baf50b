/**
 * Carries wake-ups between processes that share a PostgreSQL server. Hints only: one that is lost while a connection is
 * down costs a waiting caller a moment, never an answer.
 */
import { randomUUID } from "node:crypto";
import { Client, type ClientConfig, type Pool } from "pg";
import type { Wake } from "./wake";

const CHANNEL = "turnpike_wake";
/** PostgreSQL refuses payloads of 8,000 bytes */
const MAX_PAYLOAD = 7_500;
const RECONNECT_MS = 1_000;

interface Message {
  readonly from: string;
  readonly keys: readonly string[];
}

/** The same wake, whose notifications reach the other processes too. */
export function sharedWake(local: Wake, pool: Pool, connection: ClientConfig): Wake {
  const self = randomUUID();
  let listener: Client | undefined;
  let closed = false;
  let keys = new Set<string>();

  async function publish(): Promise<void> {
    const all = [...keys];
    keys = new Set();
    while (all.length > 0) {
      const some: string[] = [];
      let bytes = 0;
      while (all.length > 0 && bytes < MAX_PAYLOAD - 200) {
        const key = all.pop() ?? "";
        bytes += key.length + 3;
        some.push(key);
      }
      const message: Message = { from: self, keys: some };
      await pool.query("select pg_notify($1, $2)", [CHANNEL, JSON.stringify(message)]);
    }
  }

  async function listen(): Promise<void> {
    const client = new Client(connection);
    const again = (): void => {
      if (closed || listener !== client) return;
      listener = undefined;
      setTimeout(() => void connect(), RECONNECT_MS).unref();
    };
    client.on("error", again);
    client.on("end", again);
    client.on("notification", ({ payload }) => {
      const message = JSON.parse(payload ?? "{}") as Partial<Message>;
      if (message.from !== self) for (const key of message.keys ?? []) local.notify(key);
    });
    listener = client;
    await client.connect();
    await client.query(`listen ${CHANNEL}`);
  }

  const connect = (): Promise<void> =>
    listen().catch(() => {
      // The server is away: whoever waits looks by itself meanwhile, and `again` has not been called yet.
      listener = undefined;
      if (!closed) setTimeout(() => void connect(), RECONNECT_MS).unref();
    });
  void connect();

  return {
    wait: (key, timeoutMs) => local.wait(key, timeoutMs),
    notify(key) {
      local.notify(key);
      if (closed) return;
      keys.add(key);
      // One message per turn of the event loop; a failure to send one is a lost hint.
      if (keys.size === 1) setImmediate(() => void publish().catch(() => undefined));
    },
    close() {
      closed = true;
      local.close();
      void listener?.end().catch(() => undefined);
    },
  };
}
