/** A sentinel that promotes the replica of a pair half a second after its master is gone, and clients that ask it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Redis } from "ioredis";
import type { RedisClient } from "turnpike/gate/redis";
import { freePort } from "../../../scripts/sandbox/free-port";
import { until } from "../../support/subscriptions";
import { connected, disconnectAll as disconnectOthers, libraryOf } from "./node-redis";
import type { Replicated } from "./replicated";

const NAME = "gates";

export interface TestSentinel {
  readonly port: number;
  stop(): Promise<void>;
}

export async function startSentinel({ ports: [masterPort] }: Replicated): Promise<TestSentinel> {
  const port = await freePort();
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-sentinel-"));
  const file = path.join(folder, "sentinel.conf");
  const lines = [
    `port ${port}`,
    "bind 127.0.0.1",
    `dir ${folder}`,
    `sentinel monitor ${NAME} 127.0.0.1 ${masterPort} 1`,
    `sentinel down-after-milliseconds ${NAME} 500`,
  ];
  writeFileSync(file, `${lines.join("\n")}\n`);
  const server = spawn("redis-server", [file, "--sentinel"], { stdio: "ignore" });
  const exited = once(server, "exit");
  const asked = new Redis(port, "127.0.0.1");
  asked.on("error", () => undefined);
  const knowsReplica = async (): Promise<boolean> =>
    ((await asked.call("SENTINEL", "REPLICAS", NAME)) as unknown[]).length === 1;
  await until(() => knowsReplica().catch(() => false));
  return {
    port,
    async stop() {
      asked.disconnect();
      server.kill("SIGTERM");
      await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const opened: Redis[] = [];

/** @returns a client of each library that has one of sentinels */
export async function clientsOf({ port }: TestSentinel): Promise<RedisClient[]> {
  const at = { host: "127.0.0.1", port };
  const ioredis = new Redis({ sentinels: [at], name: NAME });
  ioredis.on("error", () => undefined);
  opened.push(ioredis);
  const clients: RedisClient[] = [ioredis];
  for (const version of ["redis-5", "redis-6"] as const) {
    clients.push(await connected(libraryOf(version).createSentinel({ name: NAME, sentinelRootNodes: [at] })));
  }
  return clients;
}

export async function disconnectAll(): Promise<void> {
  for (const client of opened.splice(0)) client.disconnect();
  await disconnectOthers();
}
