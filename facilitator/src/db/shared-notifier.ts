/**
 * Carries notifications between processes that share a PostgreSQL server. A notification is a hint: losing one delays a
 * waiting caller, and never changes a result.
 */
import { randomUUID } from "node:crypto";
import { Client, type ClientConfig, type Pool } from "pg";
import type { Notifier } from "../lib/notifier";

const CHANNEL = "turnpike_wake";

/** PostgreSQL rejects payloads of 8,000 bytes or more. */
const MAX_PAYLOAD = 7_500;

const RECONNECT_MS = 1_000;

interface Message {
  readonly from: string;
  readonly keys: readonly string[];
}

/** Extends a notifier to other processes. */
export function sharedNotifier(local: Notifier, pool: Pool, connection: ClientConfig): Notifier {
  const self = randomUUID();
  const closing = new AbortController();
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

  /** Listens on one connection until it ends, for any reason. */
  async function listenOnce(): Promise<void> {
    const client = new Client(connection);
    const ended = new Promise<void>((resolve) => {
      // An `error` event without a listener ends the process, at any time in the connection's life.
      client.on("error", () => resolve());
      client.on("end", () => resolve());
    });
    client.on("notification", ({ payload }) => {
      const message = JSON.parse(payload ?? "{}") as Partial<Message>;
      if (message.from !== self) for (const key of message.keys ?? []) local.notify(key);
    });
    const close = (): void => void client.end().catch(() => undefined);
    closing.signal.addEventListener("abort", close, { once: true });
    try {
      await client.connect();
      await client.query(`listen ${CHANNEL}`);
      await ended;
    } catch {
      // The server is down: waiting callers poll meanwhile.
    } finally {
      closing.signal.removeEventListener("abort", close);
      close();
    }
  }

  /** Keeps one connection at a time: the next attempt begins only after the last one has ended. */
  async function listen(): Promise<void> {
    while (!closing.signal.aborted) {
      await listenOnce();
      if (!closing.signal.aborted) await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS).unref());
    }
  }
  void listen();

  return {
    wait: (key, timeoutMs) => local.wait(key, timeoutMs),
    notify(key) {
      local.notify(key);
      if (closing.signal.aborted) return;
      keys.add(key);
      // Sends one message per turn of the event loop. A message that fails is a lost hint.
      if (keys.size === 1) setImmediate(() => void publish().catch(() => undefined));
    },
    close() {
      local.close();
      closing.abort();
    },
  };
}
