/** A connection to a test's Redis that breaks where the test says: before a script reaches the server, or after. */
import { createConnection, createServer, type Server, type Socket } from "node:net";
import path from "node:path";
import { Redis } from "ioredis";
import type { TestRedis } from "./redis";

export interface RedisLink {
  /** where other clients reach it */
  readonly socket: string;
  /** with ioredis's own defaults: it reconnects, and sends again what got no reply */
  readonly client: Redis;
  /** The next script runs, its reply is lost, and the connection breaks. */
  loseReply(): void;
  /** The next script does not reach the server, which cannot be reached until `restore`. */
  cut(): void;
  restore(): void;
  stop(): Promise<void>;
}

let links = 0;

export async function linkTo(redis: TestRedis): Promise<RedisLink> {
  let fault: "reply" | "cut" | undefined;
  let isAway = false;
  const open = new Set<Socket>();
  const server: Server = createServer((near) => {
    if (isAway) return void near.destroy();
    const far = createConnection(redis.socket);
    let isLost = false;
    const end = (): void => {
      near.destroy();
      far.destroy();
      open.delete(near);
    };
    for (const one of [near, far]) one.on("error", end).on("close", end);
    open.add(near);
    near.on("data", (bytes: Buffer) => {
      const isScript = /EVAL/i.test(bytes.toString("latin1"));
      if (isScript && fault === "cut") {
        fault = undefined;
        isAway = true;
        return end();
      }
      isLost ||= isScript && fault === "reply";
      far.write(bytes);
    });
    far.on("data", (bytes: Buffer) => {
      if (!isLost) return void near.write(bytes);
      fault = undefined;
      end();
    });
  });
  const socket = path.join(path.dirname(redis.socket), `link-${links++}`);
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  const client = new Redis(socket);
  client.on("error", () => undefined);
  return {
    socket,
    client,
    loseReply() {
      fault = "reply";
    },
    cut() {
      fault = "cut";
    },
    restore() {
      isAway = false;
    },
    async stop() {
      client.disconnect();
      for (const one of open) one.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
