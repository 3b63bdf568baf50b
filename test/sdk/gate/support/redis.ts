/** A Redis of the test's own, on a socket in a folder that goes with it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Redis } from "ioredis";
import { until } from "../../../support/subscriptions";

export interface TestRedis {
  readonly socket: string;
  readonly client: Redis;
  /** Ends it at once, as SIGKILL does. */
  kill(): Promise<void>;
  stop(): Promise<void>;
}

/** @param settings of the server, in addition */
export async function startRedis(...settings: readonly string[]): Promise<TestRedis> {
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-redis-"));
  const socket = path.join(folder, "socket");
  const own = ["--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "", "--appendonly", "yes"];
  const server = spawn("redis-server", [...own, ...settings], { stdio: "ignore" });
  await until(() => existsSync(socket));
  const client = new Redis(socket);
  const exited = once(server, "exit");
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    client.disconnect();
    server.kill(signal);
    await exited;
  };
  return {
    socket,
    client,
    kill: () => end("SIGKILL"),
    async stop() {
      await end("SIGTERM");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
